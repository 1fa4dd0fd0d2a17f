"""Calibrate the confidence of a model: match annotated pairs, fit the probability of a correct match, plot curves."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from mambamatcher.datasets.image_cache import read_image
from mambamatcher.datasets.records import Pair
from mambamatcher.errors import InputError
from mambamatcher.evaluation.pck import Targets, relative_errors
from mambamatcher.io.atomic import refuse_existing, write_atomically, write_text_atomically
from mambamatcher.jobs.progress import track
from mambamatcher.matching.confidence import (
    CALIBRATION,
    Calibration,
    fit_calibration,
    reliability,
    risk_coverage,
    roc_area,
    save_calibration,
)
from mambamatcher.matching.matcher import Matcher

FOLDS = 8  # of photos; a pair of two folds is judged by what was fitted to about half of the others
REPORT, RELIABILITY, RISK = "calibration-report.json", "reliability.png", "risk-coverage.png"


@dataclass(frozen=True)
class Examples:
    """Matches of annotated keypoints.

    Attributes:
        evidence: Evidence that the matcher gives for each match, the input of the calibration.
        correct: Whether the match is correct.
        present: Whether the keypoint is visible in the target.
        pair: Index of the pair of each keypoint.
        photos: Index of the source's and of the target's photo for each keypoint.
    """

    evidence: Float[np.ndarray, "keypoint 6"]
    correct: Bool[np.ndarray, " keypoint"]
    present: Bool[np.ndarray, " keypoint"]
    pair: Int[np.ndarray, " keypoint"]
    photos: Int[np.ndarray, "keypoint 2"]


def gather_examples(matcher: Matcher, pairs: Sequence[Pair], reference: str, alpha: float = 0.1) -> Examples:
    """Match every keypoint visible in the source; matches of those not visible in the target count as wrong.

    Args:
        matcher: Matcher to calibrate.
        pairs: Annotated pairs.
        reference: Reference size of the threshold, one of `pck.REFERENCES`.
        alpha: A match is correct within `alpha` times the reference size, as for PCK.
    """
    gathered = [_examples(matcher, pair, reference, alpha) for pair in track(pairs, len(pairs), "pairs matched")]
    evidence, correct, present = (np.concatenate(column) for column in zip(*gathered, strict=True))
    number = np.repeat(np.arange(len(gathered)), [len(each[1]) for each in gathered])
    paths = [str(photo.path) for pair in pairs for photo in (pair.source, pair.target)]
    photos = np.unique(paths, return_inverse=True)[1].reshape(-1, 2)
    return Examples(evidence, correct, present, number, photos[number])


def _examples(
    matcher: Matcher, pair: Pair, reference: str, alpha: float
) -> tuple[Float[np.ndarray, "keypoint 6"], Bool[np.ndarray, " keypoint"], Bool[np.ndarray, " keypoint"]]:
    names = [*pair.names, *(name for name in pair.source.keypoints if name not in pair.target.keypoints)]
    queries = np.clip([pair.source.keypoints[name] for name in names], 0, pair.source.size)
    result = matcher.match(read_image(pair.source), read_image(pair.target), queries)
    truth = pair.points()[1][None]
    targets = Targets(
        points=truth,
        present=np.ones((1, truth.shape[1]), dtype=bool),
        size=np.array([pair.target.size]),
        box=np.array([pair.target.bbox or (0.0, 0.0, 0.0, 0.0)]),
        box_present=np.array([pair.target.bbox is not None]),
    )
    present = np.arange(len(names)) < len(pair.names)
    correct = present.copy()
    found = result.points[present][None]
    correct[present] = relative_errors(found, targets, reference)[0] <= alpha
    return result.evidence, correct, present


def cross_fitted(
    examples: Examples,
) -> tuple[Float[np.ndarray, " keypoint"], Float[np.ndarray, " keypoint"]]:
    """Return the probabilities of being right and of being present, by calibrations fitted to other photos.

    Photos are dealt into folds; a pair is judged by the pairs that have no photo in either of its two folds.

    Raises:
        InputError: A pair shares a fold with all others.
    """
    fold = np.sort(examples.photos % FOLDS, axis=1)
    right, present = np.empty((2, len(examples.correct)))
    for folds in np.unique(fold, axis=0):
        judged, others = (fold == folds).all(axis=1), ~np.isin(fold, folds).any(axis=1)
        if not others.any():
            raise InputError(
                f"a calibration is measured on pairs that share no photo with those it was fitted to, and of the "
                f"{examples.pair[-1] + 1} pairs none is left for some; give pairs of more photos"
            )
        fitted = fit_calibration(*(each[others] for each in (examples.evidence, examples.correct, examples.present)))
        right[judged] = fitted.probability(examples.evidence[judged])
        present[judged] = fitted.presence_probability(examples.evidence[judged])
    return right, present


def describe(
    examples: Examples,
    calibration: Calibration,
    probability: Float[np.ndarray, " keypoint"],
    presence: Float[np.ndarray, " keypoint"],
) -> dict[str, Any]:
    """Measure the quality of the confidence.

    Args:
        examples: Matches of annotated keypoints.
        calibration: Calibration fitted to all of them.
        probability: Probability that each match is right, by calibrations fitted to other photos; see `cross_fitted`.
        presence: Probability that the target shows each point, likewise.

    Returns:
        The content of `calibration-report.json`.
    """
    coverage, risk = risk_coverage(probability, examples.correct)
    matched = probability >= calibration.threshold
    shown = {
        name: float(matched[kind].mean())
        for name, kind in (("present", examples.present), ("absent", ~examples.present))
        if kind.any()
    }
    return {
        "calibration": asdict(calibration),
        "pairs": int(examples.pair.max()) + 1,
        "points": len(examples.correct),
        "points_absent_in_target": int((~examples.present).sum()),
        "share_correct": float(examples.correct.mean()),
        "expected_calibration_error": reliability(probability, examples.correct).expected_error,
        "expected_calibration_error_of_defaults": reliability(
            Calibration().probability(examples.evidence), examples.correct
        ).expected_error,
        "risk_at_coverage": {f"{share:g}": _at(coverage, risk, share) for share in (0.1, 0.25, 0.5, 0.75, 1.0)},
        "share_called_matched": shown,
        "roc_area_of_present_against_absent": {
            "confidence": roc_area(probability, examples.present),
            "presence": roc_area(presence, examples.present),
        },
    }


def _at(coverage: Float[np.ndarray, " keypoint"], risk: Float[np.ndarray, " keypoint"], share: float) -> float:
    return float(risk[min(int(np.searchsorted(coverage, share)), len(risk) - 1)])


def calibrate(
    matcher: Matcher, pairs: Sequence[Pair], reference: str, folder: Path, overwrite: bool = False
) -> dict[str, Any]:
    """Fit a calibration and write it, a report and two plots into a folder.

    Args:
        matcher: Matcher to calibrate.
        pairs: Annotated pairs, at least two.
        reference: Reference size of the PCK threshold, one of `pck.REFERENCES`.
        folder: Output folder.
        overwrite: Replace existing files.

    Returns:
        The report.

    Raises:
        InputError: There are fewer than two pairs, or a file exists already.
    """
    if len(pairs) < 2:
        raise InputError(
            f"a calibration needs at least two pairs, one to fit and one to measure the fit on; got {len(pairs)}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CALIBRATION, REPORT, RELIABILITY, RISK):
        refuse_existing(folder / name, overwrite)
    examples = gather_examples(matcher, pairs, reference)
    calibration = fit_calibration(examples.evidence, examples.correct, examples.present)
    probability, presence = cross_fitted(examples)
    report = describe(examples, calibration, probability, presence)
    write_atomically(
        folder / RELIABILITY, lambda path: draw_reliability(path, probability, examples.correct), overwrite
    )
    write_atomically(folder / RISK, lambda path: draw_risk(path, probability, examples.correct), overwrite)
    write_text_atomically(folder / REPORT, json.dumps(report, indent=2) + "\n", overwrite)
    save_calibration(calibration, folder, overwrite)  # last, so that a folder with a calibration is complete
    return report


def draw_reliability(
    path: Path, probability: Float[np.ndarray, " keypoint"], correct: Bool[np.ndarray, " keypoint"]
) -> None:
    """Plot the fraction of correct matches against the predicted probability."""
    bins = reliability(probability, correct)
    filled = bins.count > 0
    with _axes(path, "stated probability", "share of right matches") as axes:
        axes.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="perfect")
        axes.plot(bins.predicted[filled], bins.observed[filled], marker="o", color="#0072b2", label="measured")
        axes.bar(
            (np.arange(len(bins.count)) + 0.5) / len(bins.count),
            bins.count / bins.count.sum(),
            width=0.9 / len(bins.count),
            color="#0072b2",
            alpha=0.2,
            label="share of matches",
        )
        axes.set(xlim=(0, 1), ylim=(0, 1), title=f"Reliability: expected calibration error {bins.expected_error:.3f}")
        axes.legend()


def draw_risk(path: Path, probability: Float[np.ndarray, " keypoint"], correct: Bool[np.ndarray, " keypoint"]) -> None:
    """Plot the fraction of wrong matches among the most confident ones, against how many are kept."""
    coverage, risk = risk_coverage(probability, correct)
    with _axes(
        path, "coverage: share of matches kept, the most trusted first", "risk: share of them that is wrong"
    ) as axes:
        axes.plot(coverage, risk, color="#0072b2")
        axes.axhline(risk[-1], color="0.6", linestyle="--", label="if kept at random")
        axes.set(xlim=(0, 1), ylim=(0, 1), title="Risk and coverage")
        axes.legend()


@contextmanager
def _axes(path: Path, x: str, y: str) -> Iterator[Any]:
    """Yield axes to draw on, then save the figure."""
    from matplotlib.figure import Figure  # not pyplot: no window, no global state

    figure = Figure(figsize=(5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y)
    yield axes
    figure.savefig(path, dpi=120)
