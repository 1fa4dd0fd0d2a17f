"""Keypoint transfer: from refined scores to points, by kernel soft-argmax and a soft sampler (Sec. 4.3, App. A).

All points are in the unit frame of their own image.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from mambamatcher.errors import ConfigError
from mambamatcher.geometry import Grid, grid_centres, smallest_radius
from mambamatcher.layers.precision import in_float32

Points = Float[Tensor, "batch keypoint 2"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """How a point is read out of the refined map.

    `sigma` of the Gaussian and the sampler's radii are in the unit frame, whose side is 2: a quarter of the grid is
    0.5. `scores` says what the Gaussian multiplies: "shifted" measures each row from its minimum, so that nothing far
    away is ever lifted; "printed" is the paper's equation, which raises far negative scores towards zero, above near
    ones. `readout` "argmax" takes the centre of the best position instead: the nearest-neighbour baseline.
    """

    sigma: float = 0.5
    temperature: float = 50.0
    scores: Literal["shifted", "printed"] = "shifted"
    readout: Literal["kernel_soft_argmax", "argmax"] = "kernel_soft_argmax"
    radius: float = 0.05
    training_radius: float = 0.1

    def __post_init__(self) -> None:
        for name in ("sigma", "temperature", "radius", "training_radius"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"transfer.{name} must be positive, got {getattr(self, name)}")


@in_float32
def matching_probability(
    refined: Float[Tensor, "batch hs ws ht wt"], settings: Transfer
) -> Float[Tensor, "batch source_position target_position"]:
    """Turn each source position's scores into a distribution over target positions with a single peak."""
    scores = rearrange(refined, "b hs ws ht wt -> b (hs ws) (ht wt)")
    centres = grid_centres((refined.shape[3], refined.shape[4]), refined.device)
    peak = scores.argmax(dim=-1)
    if settings.scores == "shifted":
        scores = scores - scores.amin(dim=-1, keepdim=True).detach()
    squared_distance = torch.cdist(centres, centres).square()
    gaussian = torch.exp(-squared_distance / (2 * settings.sigma**2))
    return (settings.temperature * gaussian[peak] * scores).softmax(dim=-1)


@in_float32
def dense_transfer(
    refined: Float[Tensor, "batch hs ws ht wt"], settings: Transfer
) -> Float[Tensor, "batch source_position 2"]:
    """Carry the centre of every source position to the target: the mean of its matching distribution."""
    centres = grid_centres((refined.shape[3], refined.shape[4]), refined.device)
    if settings.readout == "argmax":
        return centres[rearrange(refined, "b hs ws ht wt -> b (hs ws) (ht wt)").argmax(dim=-1)]
    return matching_probability(refined, settings) @ centres


@in_float32
def soft_sampler(points: Points, grid: Grid, radius: float) -> Float[Tensor, "batch keypoint position"]:
    """Weigh grid positions by their nearness to each point (App. A, W).

    Weights fall linearly to zero at `radius` (the paper's τ) and sum to one. Where the grid is so coarse that a
    point could fall between all radii, the radius grows to what the grid needs.
    """
    distance = torch.cdist(points, grid_centres(grid, points.device).expand(len(points), -1, -1))
    weights = F.relu(max(radius, smallest_radius(grid)) - distance)
    return weights / weights.sum(dim=-1, keepdim=True)


@in_float32
def transfer_points(
    refined: Float[Tensor, "batch hs ws ht wt"], points: Points, settings: Transfer, radius: float | None = None
) -> Points:
    """Carry source points to the target; `radius` defaults to the one for inference."""
    grid = (refined.shape[1], refined.shape[2])
    weights = soft_sampler(points, grid, settings.radius if radius is None else radius)
    return weights @ dense_transfer(refined, settings)


@in_float32
def point_probability(
    refined: Float[Tensor, "batch hs ws ht wt"], points: Points, settings: Transfer
) -> Float[Tensor, "batch keypoint ht wt"]:
    """Return each source point's matching distribution over the target: its heat map."""
    weights = soft_sampler(points, (refined.shape[1], refined.shape[2]), settings.radius)
    return (weights @ matching_probability(refined, settings)).unflatten(-1, refined.shape[3:])
