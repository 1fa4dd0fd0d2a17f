"""Score saved predictions under every protocol, with bootstrap intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

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
    correct = torch.cat([correct_counts(table.errors(protocol), alphas) for protocol in protocols], dim=1)
    values = averages(correct, table.counts, table.classes, table.categories)
    spread = _resampled(correct, table, bootstrap_weights(len(table.names), resamples, seed))
    low, high = np.nanquantile(torch.stack([spread[key] for key in values]).numpy(), [0.025, 0.975], axis=1)
    estimates = {
        key: [Estimate(*triple) for triple in zip(value.tolist(), low[row].tolist(), high[row].tolist(), strict=True)]
        for row, (key, value) in enumerate(values.items())
    }
    count = len(alphas)
    return [
        Scores(protocol, tuple(alphas), {key: row[k * count : (k + 1) * count] for key, row in estimates.items()})
        for k, protocol in enumerate(protocols)
    ]


def correct_counts(errors: Float[Tensor, "pair keypoint"], alphas: Sequence[float]) -> Int[Tensor, "pair alpha"]:
    """Count the correct keypoints per pair and alpha."""
    return torch.stack([(errors <= alpha).sum(dim=1) for alpha in alphas], dim=1)


def bootstrap_weights(pairs: int, resamples: int, seed: int) -> Float[Tensor, "resample pair"]:
    """Draw bootstrap resamples of the pairs and return how often each resample contains each pair."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(pairs, (resamples, pairs), generator=generator)
    return torch.zeros(resamples, pairs, dtype=torch.float64).scatter_add_(
        1, drawn, torch.ones((), dtype=torch.float64).expand(resamples, pairs)
    )


def _resampled(
    correct: Int[Tensor, "pair alpha"], table: Table, weights: Float[Tensor, "resample pair"]
) -> dict[str, Float[Tensor, "resample alpha"]]:
    """Compute `averages` for every resample; a category that a resample does not contain is NaN."""
    counts = table.counts.double()[:, None]
    columns = torch.cat([correct / counts, correct, counts, torch.ones_like(counts)], dim=1)
    groups = {"": weights @ columns}
    for number, name in enumerate(table.categories):
        mine = table.classes == number
        groups[f"/{name}"] = weights[:, mine] @ columns[mine]
    alphas = correct.shape[1]
    result = {}
    for suffix, sums in groups.items():
        result[f"image{suffix}"] = sums[:, :alphas] / sums[:, -1:]
        result[f"point{suffix}"] = sums[:, alphas : 2 * alphas] / sums[:, -2:-1]
    for kind in ("image", "point"):
        result[f"category-{kind}"] = torch.stack([result[f"{kind}/{name}"] for name in table.categories]).nanmean(dim=0)
    return result
