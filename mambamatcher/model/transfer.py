"""Keypoint transfer: from refined scores to points, by kernel soft-argmax and a soft sampler (Sec. 4.3, App. A).

All points are in the unit frame of their own image.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mambamatcher.errors import ConfigError
from mambamatcher.model.geometry import Grid, grid_centres, smallest_radius
from mambamatcher.model.layers.precision import in_float32

Points = Float[Tensor, "batch keypoint 2"]
Rows = Float[Tensor, "batch row target_position"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """How a point is read out of the refined map.

    `sigma` of the Gaussian and the sampler's radii are in the unit frame, whose side is 2: a quarter of the grid is
    0.5. `scores` says what the Gaussian multiplies: "shifted" measures each row from its minimum, so that nothing far
    away is ever lifted; "printed" is the paper's equation, which raises far negative scores towards zero, above near
    ones. `readout` "argmax" takes the centre of the best position instead: the nearest-neighbour baseline.
    `blend` says what the sampler blends around a source point: "points", the places its neighbours match, as the
    paper does, or their "scores", from which one place is then read: two neighbours that disagree would otherwise meet
    halfway, at nobody's match. An argmax is always of blended scores.
    """

    sigma: float = 0.5
    temperature: float = 50.0
    scores: Literal["shifted", "printed"] = "shifted"
    readout: Literal["kernel_soft_argmax", "argmax"] = "kernel_soft_argmax"
    blend: Literal["points", "scores"] = "points"
    radius: float = 0.05
    training_radius: float = 0.1

    def __post_init__(self) -> None:
        for name in ("sigma", "temperature", "radius", "training_radius"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"transfer.{name} must be positive, got {getattr(self, name)}")

    @property
    def blends_scores(self) -> bool:
        """Whether a point is read from blended scores."""
        return self.blend == "scores" or self.readout == "argmax"


class Readout(NamedTuple):
    """What a refined map says about some source points.

    Attributes:
        points: Target points in the unit frame of the target.
        scores: Refined scores of each point with every target position.
        probability: The matching distribution of each point over the target: its heat map.
    """

    points: Float[Tensor, "batch keypoint 2"]
    scores: Float[Tensor, "batch keypoint ht wt"]
    probability: Float[Tensor, "batch keypoint ht wt"]


@in_float32
def read_out(
    refined: Float[Tensor, "batch hs ws ht wt"], points: Points, settings: Transfer, radius: float | None = None
) -> Readout:
    """Read source points out of a refined map.

    Args:
        refined: Refined correlation map of a batch of pairs.
        points: Source points in the unit frame of the source image.
        settings: Kernel soft-argmax or argmax, with its temperature, sigma and sampler.
        radius: Radius of the soft sampler; defaults to the one for inference.
    """
    target = (refined.shape[3], refined.shape[4])
    weights, rows = _sampled(refined, points, settings.radius if radius is None else radius)
    scores = weights @ rows
    if settings.blends_scores:
        probability = matching_probability(scores, target, settings)
    else:
        probability = weights @ matching_probability(rows, target, settings)
    found = _expected_points(probability, scores, target, settings)
    return Readout(found, scores.unflatten(-1, target), probability.unflatten(-1, target))


def transfer_points(
    refined: Float[Tensor, "batch hs ws ht wt"], points: Points, settings: Transfer, radius: float | None = None
) -> Points:
    """Transfer source points to the target image; see `read_out`."""
    return read_out(refined, points, settings, radius).points


@in_float32
def dense_transfer(
    refined: Float[Tensor, "batch hs ws ht wt"], settings: Transfer
) -> Float[Tensor, "batch source_position 2"]:
    """Transfer the centre of every source position to the target."""
    target = (refined.shape[3], refined.shape[4])
    rows = refined.flatten(3).flatten(1, 2)
    return _expected_points(matching_probability(rows, target, settings), rows, target, settings)


@in_float32
def soft_sampler(points: Points, grid: Grid, radius: float) -> Float[Tensor, "batch keypoint position"]:
    """Weigh grid positions by their nearness to each point (App. A, W).

    Weights fall linearly to zero at `radius` (the paper's τ) and sum to one. Where the grid is so coarse that a
    point could fall between all radii, the radius grows to what the grid needs.
    """
    distance = torch.cdist(points, grid_centres(grid, points.device).expand(len(points), -1, -1))
    weights = F.relu(max(radius, smallest_radius(grid)) - distance)
    return weights / weights.sum(dim=-1, keepdim=True)


def blend_rows(
    refined: Float[Tensor, "batch hs ws ht wt"], weights: Float[Tensor, "batch keypoint source_position"]
) -> Float[Tensor, "batch keypoint ht wt"]:
    """Blend the scores of source positions."""
    return (weights @ refined.flatten(3).flatten(1, 2)).unflatten(2, refined.shape[3:])


def _sampled(
    refined: Float[Tensor, "batch hs ws ht wt"], points: Points, radius: float
) -> tuple[Float[Tensor, "batch keypoint row"], Rows]:
    """Return each point's weights of the source positions that any point reads, and the scores of those positions.

    A point reads a handful of positions; the others need no readout.
    """
    weights = soft_sampler(points, (refined.shape[1], refined.shape[2]), radius)
    read = weights.ne(0).flatten(0, 1).any(dim=0).nonzero().squeeze(1)
    return weights[..., read], refined.flatten(3).flatten(1, 2)[:, read]


def matching_probability(rows: Rows, grid: Grid, settings: Transfer) -> Rows:
    """Turn rows of scores over a target grid into distributions with a single peak (Sec. 4.3)."""
    x, y = grid_centres(grid, rows.device).T
    peak = rows.argmax(dim=-1, keepdim=True)
    if settings.scores == "shifted":
        rows = rows - rows.amin(dim=-1, keepdim=True).detach()
    squared_distance = (x - x[peak]).square() + (y - y[peak]).square()
    gaussian = torch.exp(-squared_distance / (2 * settings.sigma**2))
    return (settings.temperature * gaussian * rows).softmax(dim=-1)


def _expected_points(probability: Rows, rows: Rows, grid: Grid, settings: Transfer) -> Float[Tensor, "batch row 2"]:
    """Return the target point of each row: the mean of its distribution, or its best position."""
    centres = grid_centres(grid, rows.device)
    return centres[rows.argmax(dim=-1)] if settings.readout == "argmax" else probability @ centres
