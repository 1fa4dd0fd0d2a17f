"""Which tokens of the correlation sequence a match depends on, by integrated gradients, and how early they come."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.extras import require
from mambamatcher.model.transfer import blend_rows, soft_sampler

STEPS = 32
ORDERS = ("descending", "ascending", "random")

CorrelationMap = Float[Tensor, "1 level hs ws ht wt"]


@dataclass(frozen=True)
class Attribution:
    """Contribution of each token to one refined score, relative to a correlation map of zeros.

    Attributes:
        tokens: Contributions, summed over the levels.
        output: The score.
        baseline_output: The score for a map of zeros.
    """

    tokens: Float[Tensor, "hs ws ht wt"]
    output: float
    baseline_output: float


def attribute(
    aggregation: nn.Module,
    correlation: CorrelationMap,
    point: Float[Tensor, "2"],
    cell: tuple[int, int],
    radius: float,
    steps: int = STEPS,
) -> Attribution:
    """Attribute a refined score to the tokens of the correlation map.

    Args:
        aggregation: The refinement.
        correlation: Correlation map before the refinement.
        point: Source point in the unit frame.
        cell: Row and column of the target grid position.
        radius: Radius of the soft sampler.
        steps: Steps of the integral.

    Raises:
        MissingExtraError: captum is not installed.
    """
    require("captum")
    from captum.attr import IntegratedGradients

    weights = soft_sampler(point[None, None], (correlation.shape[2], correlation.shape[3]), radius)

    def score(maps: Float[Tensor, "batch level hs ws ht wt"]) -> Float[Tensor, " batch"]:
        blended = blend_rows(aggregation(maps), weights.expand(len(maps), -1, -1))
        return blended[:, 0, cell[0], cell[1]]

    # a copy, because tensors made in inference mode cannot take part in a graph
    maps = correlation.detach().clone()
    with torch.enable_grad():
        found = IntegratedGradients(score).attribute(
            maps, baselines=torch.zeros_like(maps), n_steps=steps, internal_batch_size=1
        )
        outputs = [score(each).item() for each in (maps, torch.zeros_like(maps))]
    return Attribution(found[0].sum(dim=0).detach(), *outputs)


def cumulative_share(
    attribution: Float[Tensor, "hs ws ht wt"], similarity: Float[Tensor, "hs ws ht wt"], order: str, seed: int = 0
) -> Float[np.ndarray, " position_and_start"]:
    """Return the share of the absolute attribution that the first 0, 1, 2, ... tokens of an order hold."""
    sizes, scores = attribution.abs().flatten().double(), similarity.flatten()
    if order == "random":
        places = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    else:
        places = scores.argsort(descending=order == "descending", stable=True)
    total = sizes.sum().clamp_min(1e-30)
    return np.concatenate([[0.0], (sizes[places].cumsum(dim=0) / total).numpy()])


def area_under(curve: Float[np.ndarray, " position_and_start"]) -> float:
    """Return the area under a cumulative curve over fractions of the tokens. It is 0.5 if order does not matter."""
    return float(np.trapezoid(curve, np.linspace(0.0, 1.0, len(curve))))
