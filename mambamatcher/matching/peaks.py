"""Several candidates for one point: separate peaks of its scores, for targets with more than one instance."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mambamatcher.model.geometry import grid_centres, smallest_radius
from mambamatcher.model.transfer import Transfer, dense_transfer

MODE_RADIUS = 0.25  # unit frame, an eighth of the image: nearer peaks count as one


@dataclass(frozen=True)
class Peaks:
    """The highest separate peaks of each point's scores, best first; where there are fewer, `present` is false."""

    points: Float[Tensor, "keypoint mode 2"]  # unit frame of the target
    height: Float[Tensor, "keypoint mode"]
    present: Bool[Tensor, "keypoint mode"]


def separate_peaks(
    scores: Float[Tensor, "keypoint ht wt"], count: int, settings: Transfer, radius: float = MODE_RADIUS
) -> Peaks:
    """Find up to `count` local maxima farther apart than `radius`, each refined by the scores around it.

    A position on the flank of a peak is no local maximum, so it is no candidate however high its score is.
    """
    grid = (scores.shape[1], scores.shape[2])
    centres = grid_centres(grid, scores.device)
    radius = max(radius, 2 * smallest_radius(grid))  # a coarse grid cannot separate nearer peaks
    rows = scores.flatten(1)
    left = rows.masked_fill(~_local_maxima(scores).flatten(1), -torch.inf)
    points, heights, present = [], [], []
    for _ in range(count):
        height, position = left.max(dim=1)
        points.append(_read_out(rows, position, grid, radius, settings))
        heights.append(rows.gather(1, position[:, None])[:, 0])
        present.append(height.isfinite())
        left = left.masked_fill(torch.cdist(centres[position], centres) <= radius, -torch.inf)
    return Peaks(torch.stack(points, dim=1), torch.stack(heights, dim=1), torch.stack(present, dim=1))


def _local_maxima(scores: Float[Tensor, "keypoint ht wt"]) -> Bool[Tensor, "keypoint ht wt"]:
    return scores == F.max_pool2d(scores[:, None], kernel_size=3, stride=1, padding=1)[:, 0]


def _read_out(
    rows: Float[Tensor, "keypoint position"],
    position: Int[Tensor, " keypoint"],
    grid: tuple[int, int],
    radius: float,
    settings: Transfer,
) -> Float[Tensor, "keypoint 2"]:
    """Apply the model's readout around one position; all other scores count as the lowest."""
    centres = grid_centres(grid, rows.device)
    near = torch.cdist(centres[position], centres) <= radius
    near &= rows <= rows.gather(1, position[:, None])  # a higher score belongs to another peak
    seen = torch.where(near, rows, rows.amin(dim=1, keepdim=True)).unflatten(1, grid)
    return dense_transfer(seen[None, :, None], settings)[0]
