"""Keypoint transfer: from refined scores to target points by kernel soft-argmax and a soft sampler (Sec. 4.3, App. A).

All points are in the unit frame of their own image.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mambamatcher.model.frames import Grid, smallest_radius
from mambamatcher.model.geometry import axis_centres, grid_centres
from mambamatcher.model.layers.execution import in_float32
from mambamatcher.model.transfer_settings import Transfer

Points = Float[Tensor, "batch keypoint 2"]
Rows = Float[Tensor, "batch row target_position"]


class Readout(NamedTuple):
    """Everything the refined map predicts for a set of source points.

    Attributes:
        points: Target points in the unit frame of the target image.
        scores: Refined scores of each point with every target position.
        probability: Matching distribution of each point over the target positions: its heat map.
    """

    points: Float[Tensor, "batch keypoint 2"]
    scores: Float[Tensor, "batch keypoint ht wt"]
    probability: Float[Tensor, "batch keypoint ht wt"]


@in_float32
def read_out(
    refined: Float[Tensor, "batch hs ws ht wt"], points: Points, settings: Transfer, radius: float | None = None
) -> Readout:
    """Find the target point, the scores and the heat map of each source point.

    Args:
        refined: Refined correlation map of a batch of pairs.
        points: Source points in the unit frame of the source image.
        settings: Readout with its parameters.
        radius: Radius of the soft sampler; defaults to the one for inference.

    Example:
        >>> from mambamatcher.model.transfer_settings import SHARP
        >>> refined = torch.eye(4).reshape(1, 2, 2, 2, 2)  # every position matches the same position of the target
        >>> top_left = torch.tensor([[[-0.5, -0.5]]])
        >>> found = read_out(refined, top_left, SHARP)
        >>> found.points
        tensor([[[-0.5000, -0.5000]]])
        >>> found.probability.shape
        torch.Size([1, 1, 2, 2])
    """
    target = (refined.shape[3], refined.shape[4])
    weights, rows = _sampled(refined, points, settings.radius if radius is None else radius)
    scores = weights @ rows
    if settings.blends_scores:
        probability = matching_probability(scores, target, settings)
    else:
        probability = weights @ matching_probability(rows, target, settings)
    found = expected_points(probability, scores, target, settings)
    return Readout(found, scores.unflatten(-1, target), probability.unflatten(-1, target))


def transfer_points(
    refined: Float[Tensor, "batch hs ws ht wt"], points: Points, settings: Transfer, radius: float | None = None
) -> Points:
    """Transfer source points to the target image.

    Args:
        refined: Refined correlation map of a batch of pairs.
        points: Source points in the unit frame of the source image.
        settings: Readout with its parameters.
        radius: Radius of the soft sampler; defaults to the one for inference.

    Returns:
        Target points in the unit frame of the target image.

    Example:
        >>> from mambamatcher.model.transfer_settings import SHARP
        >>> refined = torch.eye(4).flip(1).reshape(1, 2, 2, 2, 2)  # the target is rotated by 180 degrees
        >>> transfer_points(refined, torch.tensor([[[-0.5, -0.5]]]), SHARP)
        tensor([[[0.5000, 0.5000]]])
    """
    return read_out(refined, points, settings, radius).points


@in_float32
def dense_transfer(
    refined: Float[Tensor, "batch hs ws ht wt"], settings: Transfer
) -> Float[Tensor, "batch source_position 2"]:
    """Transfer the centre of every source position to the target image."""
    target = (refined.shape[3], refined.shape[4])
    rows = refined.flatten(3).flatten(1, 2)
    return expected_points(matching_probability(rows, target, settings), rows, target, settings)


@in_float32
def soft_sampler(points: Points, grid: Grid, radius: float) -> Float[Tensor, "batch keypoint position"]:
    """Compute the weight of every grid position for each point (App. A, W).

    Weights decrease linearly with distance, reach zero at `radius` (the paper's τ) and sum to one. On coarse grids the
    radius is enlarged to `smallest_radius`, so that every point has at least one position within it.

    Args:
        points: Points in the unit frame.
        grid: Height and width of the grid.
        radius: Radius in the unit frame.

    Example:
        >>> halfway = torch.tensor([[[0.0, 0.5]]])  # between the two positions of the lower row
        >>> soft_sampler(halfway, (2, 2), radius=0.1)
        tensor([[[0.0000, 0.0000, 0.5000, 0.5000]]])
    """
    distance = torch.cdist(points, grid_centres(grid, points.device).expand(len(points), -1, -1))
    weights = F.relu(max(radius, smallest_radius(grid)) - distance)
    return weights / weights.sum(dim=-1, keepdim=True)


def blend_rows(
    refined: Float[Tensor, "batch hs ws ht wt"], weights: Float[Tensor, "batch keypoint source_position"]
) -> Float[Tensor, "batch keypoint ht wt"]:
    """Return the weighted sums of the scores of source positions."""
    return (weights @ refined.flatten(3).flatten(1, 2)).unflatten(2, refined.shape[3:])


def _sampled(
    refined: Float[Tensor, "batch hs ws ht wt"], points: Points, radius: float
) -> tuple[Float[Tensor, "batch keypoint row"], Rows]:
    """Return the weights and the scores of those source positions that have a weight for any point.

    Only a few positions are near a point; the others need no readout.
    """
    weights = soft_sampler(points, (refined.shape[1], refined.shape[2]), radius)
    read = weights.ne(0).flatten(0, 1).any(dim=0).nonzero().squeeze(1)
    return weights[..., read], refined.flatten(3).flatten(1, 2)[:, read]


def matching_probability(rows: Rows, grid: Grid, settings: Transfer) -> Rows:
    """Turn rows of scores over the target grid into distributions with a single peak (Sec. 4.3)."""
    if settings.readout == "mean_shift":
        probability = (settings.temperature * rows).softmax(dim=-1)
        peak = mass_around(probability, grid, settings.sigma).argmax(dim=-1)
        near = probability * _gaussian(peak, grid, settings.sigma)
        return near / near.sum(dim=-1, keepdim=True)
    gaussian = _gaussian(rows.argmax(dim=-1), grid, settings.sigma)
    if settings.scores == "shifted":
        rows = rows - rows.amin(dim=-1, keepdim=True).detach()
    return (settings.temperature * gaussian * rows).softmax(dim=-1)


def mass_around(probability: Rows, grid: Grid, sigma: float) -> Rows:
    """Weigh the mass around each target position by a Gaussian of its distance, one axis after the other."""
    along_y, along_x = (
        torch.exp(-(centres[:, None] - centres).square() / (2 * sigma**2))
        for centres in (axis_centres(count, probability.device) for count in grid)
    )
    return (along_y @ probability.unflatten(-1, grid) @ along_x).flatten(-2)


def _gaussian(peak: Int[Tensor, "batch row"], grid: Grid, sigma: float) -> Rows:
    """Return a Gaussian around one target position of each row."""
    x, y = grid_centres(grid, peak.device).T
    squared_distance = (x - x[peak][..., None]).square() + (y - y[peak][..., None]).square()
    return torch.exp(-squared_distance / (2 * sigma**2))


def expected_points(probability: Rows, rows: Rows, grid: Grid, settings: Transfer) -> Float[Tensor, "batch row 2"]:
    """Return the target point of each row: the mean of its distribution, or its best position."""
    centres = grid_centres(grid, rows.device)
    return centres[rows.argmax(dim=-1)] if settings.readout == "argmax" else probability @ centres
