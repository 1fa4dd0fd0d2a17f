"""How far a match can be trusted: what the refined map says about it, turned into a probability of being right.

Three things are read from the map a pair already has, so none costs another pass through the model:

peak        how many standard deviations the match's score stands above the mean of all scores of its source point
entropy     of the point's scores as one softmax over the whole target, from 0 (one place) to 1 (anywhere alike)
agreement   1 where the match, carried back by the transposed map, returns to its source point, and 1/e for each 0.2 of
            the unit frame (a tenth of the picture) that it misses it by
"""

import json
from dataclasses import asdict, dataclass, fields
from math import log
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.io.atomic import write_atomically
from mambamatcher.model.config import from_dict
from mambamatcher.model.transfer import Transfer, transfer_points

CALIBRATION = "calibration.json"  # beside a saved model's config.json
RETURN_DISTANCE = 0.2  # unit frame

Refined = Float[Tensor, "1 hs ws ht wt"]
Evidence = Float[np.ndarray, "keypoint 3"]  # columns: peak, entropy, agreement
Probability = Float[np.ndarray, " keypoint"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A logistic model of evidence, and the probability below which a point counts as having no counterpart.

    The defaults were fitted to nearest neighbours on EfficientNet-Lite2, on the VOC selection split, where a match
    within a tenth of the object's box is right and keypoints the target does not show are always wrong. Another
    model deserves its own: `mambamatcher calibrate`.
    """

    bias: float = -4.47
    peak: float = 0.61
    entropy: float = 0.47
    agreement: float = 0.88
    threshold: float = 0.14

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"calibration.threshold must be a probability from 0 to 1, got {self.threshold}")

    def probability(self, evidence: Evidence) -> Probability:
        """Return how likely each match is right."""
        return _logistic(evidence @ np.array([self.peak, self.entropy, self.agreement]) + self.bias)


def _logistic(x: Float[np.ndarray, " keypoint"]) -> Probability:
    return np.exp(-np.logaddexp(0.0, -x))  # SciPy's `expit` would delay the first match by a tenth of a second


def transposed(refined: Refined) -> Float[Tensor, "1 ht wt hs ws"]:
    """Return the map read from the target to the source."""
    return refined.permute(0, 3, 4, 1, 2)


def return_agreement(
    refined: Refined, points: Float[Tensor, "keypoint 2"], found: Float[Tensor, "keypoint 2"], settings: Transfer
) -> Float[Tensor, " keypoint"]:
    """Transfer matches back and measure how near to their source points they come; all points in the unit frame."""
    returned = transfer_points(transposed(refined), found[None], settings)[0]
    return torch.exp(-(returned - points).norm(dim=-1) / RETURN_DISTANCE)


def gather_evidence(
    scores: Float[Tensor, "keypoint ht wt"],
    height: Float[Tensor, " keypoint"],
    agreement: Float[Tensor, " keypoint"],
    temperature: float,
) -> Evidence:
    """Put together what the map says of each match; `height` is the score at the match."""
    rows = scores.flatten(1)
    peak = (height - rows.mean(dim=1)) / rows.std(dim=1).clamp(min=1e-9)
    shares = (temperature * rows).log_softmax(dim=1)
    entropy = -(shares.exp() * shares).sum(dim=1) / max(log(rows.shape[1]), 1e-9)
    return torch.stack([peak, entropy, agreement], dim=1).double().cpu().numpy()


def fit_calibration(
    evidence: Evidence, correct: Bool[np.ndarray, " keypoint"], present: Bool[np.ndarray, " keypoint"]
) -> Calibration:
    """Fit the logistic model to matches known to be right or wrong.

    `present` says which points have a counterpart at all; the threshold is the one that tells them best from the
    others, by balanced accuracy. Where all have one, it tells right matches from wrong ones.
    """
    from scipy.optimize import minimize  # a third of a second that a match need not wait for

    for name, values in (("right", correct), ("wrong", ~correct)):
        if not values.any():
            raise InputError(f"none of the {len(correct)} matches is {name}; a calibration needs both kinds")
    scale = evidence.std(axis=0).clip(1e-9)
    centre = evidence.mean(axis=0)
    columns = np.column_stack([(evidence - centre) / scale, np.ones(len(evidence))])
    sign = np.where(correct, 1.0, -1.0)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (columns @ weights)
        # the ridge is worth one match, and keeps separable examples finite
        value = np.logaddexp(0, -margin).sum() + 0.5 * weights[:-1] @ weights[:-1]
        gradient = -(sign * _logistic(-margin)) @ columns + np.append(weights[:-1], 0.0)
        return float(value), gradient

    weights = minimize(loss, np.zeros(columns.shape[1]), jac=True, method="BFGS").x
    slopes = weights[:-1] / scale
    fitted = dict(zip(("peak", "entropy", "agreement"), slopes.tolist(), strict=True))
    bias = float(weights[-1] - slopes @ centre)
    probability = Calibration(bias=bias, **fitted).probability(evidence)
    threshold = separating_threshold(probability, correct if present.all() else present)
    return Calibration(bias=bias, threshold=threshold, **fitted)


def separating_threshold(probability: Probability, positive: Bool[np.ndarray, " keypoint"]) -> float:
    """Return the threshold with the best balanced accuracy: `positive` are to be at or above it."""
    order = np.argsort(-probability, kind="stable")
    hits = np.cumsum(positive[order]) / max(positive.sum(), 1)
    alarms = np.cumsum(~positive[order]) / max((~positive).sum(), 1)
    # equal probabilities fall on the same side
    last_of_equals = np.append(np.diff(probability[order]) != 0, True)
    return float(probability[order][np.argmax(np.where(last_of_equals, hits - alarms, -np.inf))])


def save_calibration(calibration: Calibration, folder: Path, overwrite: bool = False) -> None:
    """Write `calibration.json` into a model's folder."""
    text = json.dumps(asdict(calibration), indent=2) + "\n"

    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    write_atomically(folder / CALIBRATION, write, overwrite)


def load_calibration(folder: Path) -> Calibration:
    """Read a model's `calibration.json`; a model without one has the defaults."""
    path = folder / CALIBRATION
    if not path.is_file():
        return Calibration()
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if isinstance(values, dict) and (missing := {each.name for each in fields(Calibration)} - values.keys()):
        raise ConfigError(f"{path} has no key {min(missing)!r}; a calibration is written whole")
    return from_dict(Calibration, values)


@dataclass(frozen=True)
class Reliability:
    """Matches in bins of equal width by probability; an empty bin has a count of 0 and no meaning."""

    predicted: Float[np.ndarray, " bin"]  # mean probability
    observed: Float[np.ndarray, " bin"]  # share of right matches
    count: Float[np.ndarray, " bin"]

    @property
    def expected_error(self) -> float:
        """The expected calibration error: the mean gap between the two, weighted by the matches in each bin."""
        return float((np.abs(self.predicted - self.observed) * self.count).sum() / self.count.sum())


def reliability(probability: Probability, correct: Bool[np.ndarray, " keypoint"], bins: int = 10) -> Reliability:
    """Compare stated probabilities with the share of matches that were right."""
    index = np.minimum((probability * bins).astype(int), bins - 1)
    count = np.bincount(index, minlength=bins).astype(np.float64)
    filled = count.clip(min=1)
    predicted = np.bincount(index, probability, minlength=bins) / filled
    return Reliability(predicted, np.bincount(index, correct, minlength=bins) / filled, count)


def risk_coverage(
    probability: Probability, correct: Bool[np.ndarray, " keypoint"]
) -> tuple[Float[np.ndarray, " keypoint"], Float[np.ndarray, " keypoint"]]:
    """Return coverage and risk: of the most trusted share of matches, the share that is wrong."""
    wrong = ~correct[np.argsort(-probability, kind="stable")]
    kept = np.arange(1, len(wrong) + 1)
    return kept / len(wrong), np.cumsum(wrong) / kept
