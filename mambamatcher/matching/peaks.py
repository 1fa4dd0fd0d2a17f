"""Several candidates for one point: separate peaks of its scores, for targets with more than one instance."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from mambamatcher.matching.transfer import dense_transfer, distances, peak_heights
from mambamatcher.model.frames import Grid, grid_centres, smallest_radius
from mambamatcher.model.transfer_settings import Transfer

MODE_RADIUS = 0.25  # unit frame, an eighth of the image: nearer peaks count as one


@dataclass(frozen=True)
class Peaks:
    """The highest separate peaks of each point's scores, best first; where there are fewer, `present` is false."""

    points: Float[np.ndarray, "keypoint mode 2"]  # unit frame of the target
    height: Float[np.ndarray, "keypoint mode"]
    present: Bool[np.ndarray, "keypoint mode"]


def separate_peaks(
    scores: Float[np.ndarray, "keypoint ht wt"], count: int, settings: Transfer, radius: float = MODE_RADIUS
) -> Peaks:
    """Find up to `count` local maxima farther apart than `radius`, each refined by the scores around it.

    They are maxima of what the readout takes the maximum of, so that the first one is the match.

    A position on the flank of a peak is no local maximum, so it is no candidate however high its score is.
    """
    grid = (scores.shape[1], scores.shape[2])
    centres = grid_centres(grid)
    radius = max(radius, 2 * smallest_radius(grid))  # a coarse grid cannot separate nearer peaks
    rows = scores.reshape(len(scores), -1)
    peaks = peak_heights(rows, grid, settings)
    each = np.arange(len(rows))
    left = np.where(_local_maxima(peaks.reshape(scores.shape)).reshape(rows.shape), peaks, -np.inf)
    points, heights, present = [], [], []
    for _ in range(count):
        position = left.argmax(axis=1)
        points.append(_read_out(rows, peaks, position, grid, radius, settings))
        heights.append(rows[each, position])
        present.append(np.isfinite(left[each, position]))
        left = np.where(distances(centres[position], centres) <= radius, -np.inf, left)
    return Peaks(np.stack(points, axis=1), np.stack(heights, axis=1), np.stack(present, axis=1))


def _local_maxima(scores: Float[np.ndarray, "keypoint ht wt"]) -> Bool[np.ndarray, "keypoint ht wt"]:
    padded = np.pad(scores, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return scores == around.max(axis=(3, 4))


def _read_out(
    rows: Float[np.ndarray, "keypoint position"],
    peaks: Float[np.ndarray, "keypoint position"],
    position: Int[np.ndarray, " keypoint"],
    grid: Grid,
    radius: float,
    settings: Transfer,
) -> Float[np.ndarray, "keypoint 2"]:
    """Apply the model's readout around one position; all other scores count as the lowest."""
    centres = grid_centres(grid)
    near = distances(centres[position], centres) <= radius
    near &= peaks <= np.take_along_axis(peaks, position[:, None], axis=1)  # what is higher belongs to another peak
    seen = np.where(near, rows, rows.min(axis=1, keepdims=True))
    return dense_transfer(seen.reshape(-1, 1, *grid), settings)
