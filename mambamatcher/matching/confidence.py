"""Confidence of a match: evidence from the refined map, turned into a probability of being right.

The same evidence also gives the probability that the target shows the point at all. All of it comes from the map that a
pair already has, so it needs no further pass through the model:

peak        by how many standard deviations the match's score exceeds the mean of its source point's scores
entropy     of the softmax of the point's scores over the whole target, from 0 (one position) to 1 (uniform)
agreement   1 where the match, transferred back by the transposed map, returns to its source point; it falls by a
            factor e for each 0.2 of the unit frame (a tenth of the image) that it misses it by
energy      log-sum-exp of the point's scores times the temperature: low where nothing in the target resembles the
            point, which the other three cannot tell, because they depend on differences between scores only
height      the match's score times the temperature; unlike the energy, it does not grow with the number of poor matches
border      distance of the match from the nearest edge of the target, in the unit frame: where an object is cut off,
            the best match of what is missing often lies at the edge
"""

import json
from dataclasses import asdict, dataclass, fields
from math import log
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.io.atomic import read_settings, write_text_atomically
from mambamatcher.matching.scores import Scores
from mambamatcher.matching.transfer import read_out
from mambamatcher.model.config import from_dict
from mambamatcher.model.transfer_settings import Transfer

CALIBRATION = "calibration.json"  # beside a saved model's config.json
RETURN_DISTANCE = 0.2  # unit frame

Evidence = Float[np.ndarray, "keypoint 6"]  # a column for each of:
EVIDENCE = ("peak", "entropy", "agreement", "energy", "height", "border")
Probability = Float[np.ndarray, " keypoint"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LogisticModel:
    """A probability from the evidence of a match: a bias and a weight of each column."""

    bias: float
    peak: float
    entropy: float
    agreement: float
    # the scale of scores differs between models, so no other model's weights would do for these
    energy: float = 0.0
    height: float = 0.0
    border: float = 0.0

    def probability(self, evidence: Evidence) -> Probability:
        """Return the probability of each match."""
        return _logistic(evidence @ np.array([getattr(self, name) for name in EVIDENCE]) + self.bias)


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration(LogisticModel):
    """A logistic model of being right, and the probability below which a point counts as not matched.

    The defaults were fitted to nearest neighbours on EfficientNet-Lite2, on the VOC selection split. There, a match
    within a tenth of the object's box is right, and keypoints that the target does not show are always wrong. Fit
    another model's own with `mambamatcher calibrate`.

    Attributes:
        threshold: Least probability of being right of a match that counts as one.
        presence: Model of whether the target shows the point; None where none was fitted.
    """

    bias: float = -4.47
    peak: float = 0.61
    entropy: float = 0.47
    agreement: float = 0.88
    threshold: float = 0.14
    presence: LogisticModel | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"calibration.threshold must be a probability from 0 to 1, got {self.threshold}")

    def presence_probability(self, evidence: Evidence) -> Probability:
        """Return the probability that the target shows each point; without a model, that of a right match."""
        return (self.presence or self).probability(evidence)


def _logistic(x: Float[np.ndarray, " keypoint"]) -> Probability:
    return np.exp(
        -np.logaddexp(0.0, -x)
    )  # importing SciPy's `expit` would delay the first match by a tenth of a second


def return_agreement(
    backward: Scores,
    points: Float[np.ndarray, "keypoint 2"],
    found: Float[np.ndarray, "keypoint 2"],
    settings: Transfer,
) -> Float[np.ndarray, " keypoint"]:
    """Transfer matches back and measure how near to their source points they come; all points in the unit frame.

    Args:
        backward: The scores from target to source.
        points: Source points.
        found: Their matches in the target.
        settings: How points are read from scores.
    """
    returned = read_out(backward, found, settings).points
    return np.exp(-np.linalg.norm(returned - points, axis=1) / RETURN_DISTANCE)


def gather_evidence(
    scores: Float[np.ndarray, "keypoint ht wt"],
    height: Float[np.ndarray, " keypoint"],
    agreement: Float[np.ndarray, " keypoint"],
    temperature: float,
    found: Float[np.ndarray, "keypoint 2"],
) -> Evidence:
    """Compute the evidence of each match; `height` is the score at the match, `found` is in the unit frame."""
    rows = scores.reshape(len(scores), -1).astype(np.float64)
    deviation = rows.std(axis=1, ddof=1) if rows.shape[1] > 1 else np.zeros(len(rows))
    peak = (height - rows.mean(axis=1)) / deviation.clip(min=1e-9)
    logits = temperature * rows
    highest = logits.max(axis=1)
    energy = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    shares = np.exp(logits - energy[:, None])
    entropy = -(shares * np.log(shares.clip(min=1e-300))).sum(axis=1) / max(log(rows.shape[1]), 1e-9)
    border = 1 - np.abs(found).max(axis=1)
    return np.stack([peak, entropy, agreement, energy, temperature * height, border], axis=1)


def fit_calibration(
    evidence: Evidence, correct: Bool[np.ndarray, " keypoint"], present: Bool[np.ndarray, " keypoint"]
) -> Calibration:
    """Fit both logistic models to matches known to be right or wrong, of points present in the target or absent.

    Args:
        evidence: Evidence of each match.
        correct: Which matches are right.
        present: Which points have a counterpart. The threshold separates these from the others with the best
            balanced accuracy; where all have one, it separates right matches from wrong ones.

    Raises:
        InputError: All matches are right, or all are wrong.
    """
    for name, values in (("right", correct), ("wrong", ~correct)):
        if not values.any():
            raise InputError(f"none of the {len(correct)} matches is {name}; a calibration needs both kinds")
    right = _fit(evidence, correct)
    threshold = separating_threshold(right.probability(evidence), correct if present.all() else present)
    presence = _fit(evidence, present) if present.any() and not present.all() else None
    return Calibration(**asdict(right), threshold=threshold, presence=presence)


def _fit(evidence: Evidence, positive: Bool[np.ndarray, " keypoint"]) -> LogisticModel:
    from scipy.optimize import minimize  # its import would delay every match by a third of a second

    scale = evidence.std(axis=0).clip(1e-9)
    centre = evidence.mean(axis=0)
    columns = np.column_stack([(evidence - centre) / scale, np.ones(len(evidence))])
    sign = np.where(positive, 1.0, -1.0)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (columns @ weights)
        # the ridge weighs as much as one match and keeps the weights finite where the examples are separable
        value = np.logaddexp(0, -margin).sum() + 0.5 * weights[:-1] @ weights[:-1]
        gradient = -(sign * _logistic(-margin)) @ columns + np.append(weights[:-1], 0.0)
        return float(value), gradient

    weights = minimize(loss, np.zeros(columns.shape[1]), jac=True, method="BFGS").x
    slopes = weights[:-1] / scale
    return LogisticModel(bias=float(weights[-1] - slopes @ centre), **dict(zip(EVIDENCE, slopes.tolist(), strict=True)))


def separating_threshold(probability: Probability, positive: Bool[np.ndarray, " keypoint"]) -> float:
    """Return the threshold with the best balanced accuracy; `positive` should be at or above it."""
    order = np.argsort(-probability, kind="stable")
    hits = np.cumsum(positive[order]) / max(positive.sum(), 1)
    alarms = np.cumsum(~positive[order]) / max((~positive).sum(), 1)
    # equal probabilities are on the same side
    last_of_equals = np.append(np.diff(probability[order]) != 0, True)
    return float(probability[order][np.argmax(np.where(last_of_equals, hits - alarms, -np.inf))])


def roc_area(probability: Probability, positive: Bool[np.ndarray, " keypoint"]) -> float | None:
    """Return the area under the ROC curve: how often a positive has a higher probability than a negative.

    Ties count half. Without positives or without negatives there is no curve.
    """
    negatives = np.sort(probability[~positive])
    if not len(negatives) or not positive.any():
        return None
    below, not_above = (np.searchsorted(negatives, probability[positive], side) for side in ("left", "right"))
    return float((below + not_above).mean() / 2 / len(negatives))


def save_calibration(calibration: Calibration, folder: Path, overwrite: bool = False) -> None:
    """Write `calibration.json` into a model's folder."""
    write_text_atomically(folder / CALIBRATION, json.dumps(asdict(calibration), indent=2) + "\n", overwrite)


def load_calibration(folder: Path) -> Calibration:
    """Read a model's `calibration.json`, or return the defaults."""
    path = folder / CALIBRATION
    if not path.is_file():
        return Calibration()
    values = read_settings(path)
    later = {"energy", "height", "border", "presence"}  # older files have none
    needed = {each.name for each in fields(Calibration)} - later
    if isinstance(values, dict) and (missing := needed - values.keys()):
        raise ConfigError(f"{path} has no key {min(missing)!r}; a calibration has all of them")
    return from_dict(Calibration, values)


@dataclass(frozen=True)
class Reliability:
    """Matches in bins of equal width by probability; the values of an empty bin (count 0) mean nothing."""

    predicted: Float[np.ndarray, " bin"]  # mean probability
    observed: Float[np.ndarray, " bin"]  # share of right matches
    count: Float[np.ndarray, " bin"]

    @property
    def expected_error(self) -> float:
        """The expected calibration error: the mean gap between the two, weighted by the count of each bin."""
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
    """Return coverage and risk: the fraction of matches kept, most confident first, and the error rate among them."""
    wrong = ~correct[np.argsort(-probability, kind="stable")]
    kept = np.arange(1, len(wrong) + 1)
    return kept / len(wrong), np.cumsum(wrong) / kept
