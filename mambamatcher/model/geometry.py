"""Frames of reference for points, always written (x, y).

pixel   continuous pixels of an image as the user has it: from 0 at the left or top edge to the width or height
unit    the same picture squeezed to [-1, 1] in both axes; losses, radii and Gaussians live here
grid    integer (row, column) of a feature map, written `(height, width)`; position i of n has its centre at
        (i + 1/2) * 2/n - 1 in the unit frame
"""

from math import hypot

import torch
from jaxtyping import Float
from torch import Tensor

Grid = tuple[int, int]


def pixels_to_unit(points: Float[Tensor, "*any 2"], size: tuple[int, int]) -> Float[Tensor, "*any 2"]:
    """Move points from the pixels of a `(width, height)` image to the unit frame."""
    return points * (2.0 / points.new_tensor(size)) - 1.0


def unit_to_pixels(points: Float[Tensor, "*any 2"], size: tuple[int, int]) -> Float[Tensor, "*any 2"]:
    """Move points from the unit frame to the pixels of a `(width, height)` image."""
    return (points + 1.0) * (points.new_tensor(size) / 2.0)


def axis_centres(count: int, device: torch.device | None = None) -> Float[Tensor, " count"]:
    """Return the unit coordinates of the centres of `count` equal cells."""
    return (torch.arange(count, device=device, dtype=torch.float32) + 0.5) * (2.0 / count) - 1.0


def grid_centres(grid: Grid, device: torch.device | None = None) -> Float[Tensor, "position 2"]:
    """Return the unit (x, y) of every grid position, row by row."""
    y, x = torch.meshgrid(axis_centres(grid[0], device), axis_centres(grid[1], device), indexing="ij")
    return torch.stack([x, y], dim=-1).reshape(-1, 2)


def smallest_radius(grid: Grid) -> float:
    """Return the least radius (unit frame) for which every point of the picture has a grid centre well within it.

    The farthest a point can be from its nearest centre is half a cell's diagonal; 5 % more keeps the weight there
    clear of zero.
    """
    return 1.05 * hypot(1.0 / grid[0], 1.0 / grid[1])
