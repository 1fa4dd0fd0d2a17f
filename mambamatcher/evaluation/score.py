"""Score saved predictions under every protocol, with bootstrap intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from mambamatcher.evaluation.pck import ALPHAS, averages
from mambamatcher.evaluation.table import Protocol, Table

RESAMPLES = 1000
AVERAGES = {
    "image": "mean over images",
    "point": "all points pooled",
    "category-image": "mean over categories of means over images",
    "category-point": "mean over categories of pooled points",
}


@dataclass(frozen=True)
class Estimate:
    """PCK from 0 to 1 with its 95 % bootstrap interval over pairs."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """Estimates of one protocol, one per alpha, keyed by average and category (`image`, `point/cat`, ...)."""

    protocol: Protocol
    alphas: tuple[float, ...]
    estimates: dict[str, list[Estimate]]


def score(
    table: Table,
    protocols: Sequence[Protocol] | None = None,
    alphas: Sequence[float] = ALPHAS,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Scores]:
    """Score predictions under several protocols, all with the same bootstrap resamples.

    Args:
        table: Predictions and ground truth of all pairs.
        protocols: Protocols to score under; by default all that the ground truth allows.
        alphas: PCK thresholds as fractions of the reference size.
        resamples: Number of bootstrap resamples over pairs.
        seed: Seed of the resamples.

    Returns:
        One `Scores` per protocol, in the given order.
    """
    protocols = protocols or table.protocols()
    # treat all protocols as extra alphas and resample once: a seventh of the work
    correct = np.concatenate([correct_counts(table.errors(protocol), alphas) for protocol in protocols], axis=1)
    values = averages(correct, table.counts, table.classes, table.categories)
    spread = _resampled(correct, table, bootstrap_weights(len(table.names), resamples, seed))
    low, high = np.nanquantile(np.stack([spread[key] for key in values]), [0.025, 0.975], axis=1)
    estimates = {
        key: [Estimate(*triple) for triple in zip(value.tolist(), low[row].tolist(), high[row].tolist(), strict=True)]
        for row, (key, value) in enumerate(values.items())
    }
    count = len(alphas)
    return [
        Scores(protocol, tuple(alphas), {key: row[k * count : (k + 1) * count] for key, row in estimates.items()})
        for k, protocol in enumerate(protocols)
    ]


def correct_counts(
    errors: Float[np.ndarray, "pair keypoint"], alphas: Sequence[float]
) -> Int[np.ndarray, "pair alpha"]:
    """Count the correct keypoints per pair and alpha."""
    return np.stack([(errors <= alpha).sum(axis=1) for alpha in alphas], axis=1)


def bootstrap_weights(pairs: int, resamples: int, seed: int) -> Float[np.ndarray, "resample pair"]:
    """Draw bootstrap resamples of the pairs and return how often each resample contains each pair."""
    # the draws of torch.randint with this seed, with which the published intervals were made
    drawn = np.random.RandomState(seed).randint(0, 2**32, size=(resamples, pairs), dtype=np.uint32) % pairs
    return np.stack([np.bincount(row, minlength=pairs) for row in drawn]).astype(np.float64)


def _resampled(
    correct: Int[np.ndarray, "pair alpha"], table: Table, weights: Float[np.ndarray, "resample pair"]
) -> dict[str, Float[np.ndarray, "resample alpha"]]:
    """Compute `averages` for every resample; a category that a resample does not contain is NaN."""
    counts = table.counts.astype(np.float64)[:, None]
    columns = np.concatenate([correct / counts, correct, counts, np.ones_like(counts)], axis=1)
    groups = {"": weights @ columns}
    for number, name in enumerate(table.categories):
        mine = table.classes == number
        groups[f"/{name}"] = weights[:, mine] @ columns[mine]
    alphas = correct.shape[1]
    result = {}
    with np.errstate(invalid="ignore"):
        for suffix, sums in groups.items():
            result[f"image{suffix}"] = sums[:, :alphas] / sums[:, -1:]
            result[f"point{suffix}"] = sums[:, alphas : 2 * alphas] / sums[:, -2:-1]
    for kind in ("image", "point"):
        result[f"category-{kind}"] = np.nanmean([result[f"{kind}/{name}"] for name in table.categories], axis=0)
    return result
