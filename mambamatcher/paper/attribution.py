"""Which tokens of the correlation sequence a match rests on, by integrated gradients, and how early they come."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.transfer import blend_rows, soft_sampler

STEPS = 32
ORDERS = ("descending", "ascending", "random")

CorrelationMap = Float[Tensor, "1 level hs ws ht wt"]


@dataclass(frozen=True)
class Attribution:
    """Each token's share in the difference that the correlation map makes to one score, all levels added up."""

    tokens: Float[Tensor, "hs ws ht wt"]
    output: float
    baseline_output: float  # of a map of zeros


def attribute(
    aggregation: nn.Module,
    correlation: CorrelationMap,
    point: Float[Tensor, "2"],
    cell: tuple[int, int],
    radius: float,
    steps: int = STEPS,
) -> Attribution:
    """Attribute the refined score of a source point (unit frame) at a target grid position (row, column)."""
    try:
        from captum.attr import IntegratedGradients
    except ImportError as error:
        raise ConfigError(
            "attribution needs captum, which is not installed; pip install mambamatcher[analysis]"
        ) from error

    weights = soft_sampler(point[None, None], (correlation.shape[2], correlation.shape[3]), radius)

    def score(maps: Float[Tensor, "batch level hs ws ht wt"]) -> Float[Tensor, " batch"]:
        blended = blend_rows(aggregation(maps), weights.expand(len(maps), -1, -1))
        return blended[:, 0, cell[0], cell[1]]

    # tensors made in inference mode cannot take part in a graph, so this is a copy
    ours = correlation.detach().clone()
    with torch.enable_grad():
        found = IntegratedGradients(score).attribute(
            ours, baselines=torch.zeros_like(ours), n_steps=steps, internal_batch_size=1
        )
        ends = [score(maps).item() for maps in (ours, torch.zeros_like(ours))]
    return Attribution(found[0].sum(dim=0).detach(), *ends)


def cumulative_share(
    attribution: Float[Tensor, "hs ws ht wt"], similarity: Float[Tensor, "hs ws ht wt"], order: str, seed: int = 0
) -> Float[np.ndarray, " position_and_start"]:
    """Return how much of all attribution, by size, the first tokens hold; it begins with none of them."""
    sizes, scores = attribution.abs().flatten().double(), similarity.flatten()
    if order == "random":
        places = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    else:
        places = scores.argsort(descending=order == "descending", stable=True)
    total = sizes.sum().clamp_min(1e-30)
    return np.concatenate([[0.0], (sizes[places].cumsum(dim=0) / total).numpy()])


def area_under(curve: Float[np.ndarray, " position_and_start"]) -> float:
    """Return the area under a cumulative curve over fractions of the tokens: one half where order does not matter."""
    return float(np.trapezoid(curve, np.linspace(0.0, 1.0, len(curve))))
