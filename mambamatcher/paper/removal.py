"""How much the refinement depends on the strongest initial scores: the top k percent are set to zero."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mambamatcher.errors import ConfigError
from mambamatcher.evaluation.compare import RESAMPLES
from mambamatcher.evaluation.score import bootstrap_weights
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.paper.opened_pair import OpenedPair, is_correct, predicted_points

SHARES = (0.0, 0.05, 0.10, 0.15)

CorrelationMap = Float[Tensor, "batch level hs ws ht wt"]


def remove_strongest(correlation: CorrelationMap, share: float) -> CorrelationMap:
    """Set all levels of a position to zero if its last level is among the highest `share` of the pair."""
    if not 0 <= share <= 1:
        raise ConfigError(f"the share to remove must be between 0 and 1, got {share}")
    similarity = correlation[:, -1].flatten(1)
    places = similarity.argsort(dim=1, descending=True, stable=True)[:, : round(share * similarity.shape[1])]
    kept = torch.ones_like(similarity).scatter_(1, places, 0.0).unflatten(1, correlation.shape[2:])
    return correlation * kept[:, None]


def removal_curve(
    model: MambaMatcher, opened: Sequence[OpenedPair], alpha: float, shares: Sequence[float] = SHARES
) -> list[dict[str, float]]:
    """Return PCK per image in percent after removing each share, with a 95 % interval over pairs."""
    found = []
    for pair in opened:
        maps = (remove_strongest(pair.correlation, share) for share in shares)
        found.append([is_correct(pair, predicted_points(pair, model, each), alpha).mean() for each in maps])
    values = 100 * np.array(found)
    resampled = bootstrap_weights(len(values), RESAMPLES, 0) @ values / len(values)
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return [
        {"removed": share, "pck": float(values[:, k].mean()), "low": float(low[k]), "high": float(high[k])}
        for k, share in enumerate(shares)
    ]
