"""Keypoint transfer in NumPy: what `model.transfer` does for training, for one pair and only the rows asked for.

All points are in the unit frame of their own image.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mambamatcher.matching.scores import Scores
from mambamatcher.model.frames import Grid, axis_centres, grid_centres, smallest_radius
from mambamatcher.model.transfer_settings import Transfer

Points = Float[np.ndarray, "keypoint 2"]
Rows = Float[np.ndarray, "row target_position"]


class Readout(NamedTuple):
    """Everything the refined scores predict for a set of source points.

    Attributes:
        points: Target points in the unit frame of the target image.
        scores: Refined scores of each point with every target position.
        probability: Matching distribution of each point over the target positions: its heat map.
    """

    points: Points
    scores: Float[np.ndarray, "keypoint ht wt"]
    probability: Float[np.ndarray, "keypoint ht wt"]


def read_out(scores: Scores, points: Points, settings: Transfer) -> Readout:
    """Find the target point, the scores and the heat map of each source point."""
    grid = scores.target_grid
    weights = soft_sampler(points, scores.source_grid, settings.radius)
    if settings.blends_scores:
        blended = scores.at(weights).reshape(len(points), -1)
        probability = matching_probability(blended, grid, settings)
    else:
        read = np.flatnonzero(weights.any(axis=0))  # few positions are near a point; the others need no readout
        rows = scores.at(np.eye(weights.shape[1], dtype=weights.dtype)[read]).reshape(len(read), -1)
        near = weights[:, read]
        blended = near @ rows
        probability = near @ matching_probability(rows, grid, settings)
    found = _expected_points(probability, blended, grid, settings)
    return Readout(found, blended.reshape(-1, *grid), probability.reshape(-1, *grid))


def dense_transfer(
    refined: Float[np.ndarray, "hs ws ht wt"], settings: Transfer
) -> Float[np.ndarray, "source_position 2"]:
    """Transfer the centre of every source position to the target image."""
    grid = (refined.shape[2], refined.shape[3])
    rows = refined.reshape(refined.shape[0] * refined.shape[1], -1)
    return _expected_points(matching_probability(rows, grid, settings), rows, grid, settings)


def soft_sampler(points: Points, grid: Grid, radius: float) -> Float[np.ndarray, "keypoint position"]:
    """Compute the weight of every grid position for each point (App. A, W); see `model.transfer.soft_sampler`.

    Example:
        >>> soft_sampler(np.array([[0.0, 0.5]]), (2, 2), radius=0.1)  # between the two positions of the lower row
        array([[0. , 0. , 0.5, 0.5]])
    """
    weights = np.maximum(max(radius, smallest_radius(grid)) - distances(points, grid_centres(grid)), 0)
    return weights / weights.sum(axis=1, keepdims=True)


def matching_probability(rows: Rows, grid: Grid, settings: Transfer) -> Rows:
    """Turn rows of scores over the target grid into distributions with a single peak (Sec. 4.3)."""
    gaussian = _gaussian(peak_heights(rows, grid, settings).argmax(axis=1), grid, settings.sigma)
    if settings.readout == "mean_shift":
        near = softmax(settings.temperature * rows) * gaussian
        return near / near.sum(axis=1, keepdims=True)
    if settings.scores == "shifted":
        rows = rows - rows.min(axis=1, keepdims=True)
    return softmax(settings.temperature * gaussian * rows)


def peak_heights(rows: Rows, grid: Grid, settings: Transfer) -> Rows:
    """Return what the readout takes the maximum of: the scores, or the mass of their softmax around each position."""
    if settings.readout != "mean_shift":
        return rows
    probability = softmax(settings.temperature * rows).reshape(-1, *grid)
    along_y, along_x = (
        np.exp(-np.square(centres[:, None] - centres) / (2 * settings.sigma**2)) for centres in map(axis_centres, grid)
    )
    return (along_y @ probability @ along_x).reshape(rows.shape)


def _gaussian(peak: Int[np.ndarray, " row"], grid: Grid, sigma: float) -> Rows:
    """Return a Gaussian around one target position of each row."""
    centres = grid_centres(grid)
    squared_distance = np.square(centres[:, 0] - centres[peak, :1]) + np.square(centres[:, 1] - centres[peak, 1:])
    return np.exp(-squared_distance / (2 * sigma**2))


def softmax(rows: Rows) -> Rows:
    """Normalise the exponentials of each row."""
    shares = np.exp(rows - rows.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def distances(points: Points, others: Float[np.ndarray, "other 2"]) -> Float[np.ndarray, "keypoint other"]:
    """Return the distance of each point from each of the others."""
    return np.hypot(points[:, None, 0] - others[None, :, 0], points[:, None, 1] - others[None, :, 1])


def _expected_points(probability: Rows, rows: Rows, grid: Grid, settings: Transfer) -> Float[np.ndarray, "row 2"]:
    """Return the target point of each row: the mean of its distribution, or its best position."""
    centres = grid_centres(grid)
    return centres[rows.argmax(axis=1)] if settings.readout == "argmax" else probability @ centres
