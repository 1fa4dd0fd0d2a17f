"""Coordinate frames. Points are always (x, y).

pixel   continuous pixel coordinates of the original image: 0 at the left or top edge, width or height at the other
unit    the image scaled to [-1, 1] in both axes; losses, radii and Gaussians are defined in this frame
grid    integer (row, column) of a feature map of size `(height, width)`; position i of n has its centre at
        (i + 1/2) * 2/n - 1 in the unit frame
"""

from math import hypot

import torch
from jaxtyping import Float
from torch import Tensor

Grid = tuple[int, int]


def pixels_to_unit(points: Float[Tensor, "*any 2"], size: tuple[int, int]) -> Float[Tensor, "*any 2"]:
    """Convert points from the pixels of a `(width, height)` image to the unit frame.

    Example:
        >>> pixels_to_unit(torch.tensor([[0.0, 0.0], [320.0, 120.0]]), (640, 480))
        tensor([[-1.0000, -1.0000],
                [ 0.0000, -0.5000]])
    """
    return points * (2.0 / points.new_tensor(size)) - 1.0


def unit_to_pixels(points: Float[Tensor, "*any 2"], size: tuple[int, int]) -> Float[Tensor, "*any 2"]:
    """Convert points from the unit frame to the pixels of a `(width, height)` image.

    Example:
        >>> unit_to_pixels(torch.tensor([[0.0, -0.5]]), (640, 480))
        tensor([[320., 120.]])
    """
    return (points + 1.0) * (points.new_tensor(size) / 2.0)


def axis_centres(count: int, device: torch.device | None = None) -> Float[Tensor, " count"]:
    """Return the centres of `count` equal cells along one axis, in the unit frame."""
    return (torch.arange(count, device=device, dtype=torch.float32) + 0.5) * (2.0 / count) - 1.0


def grid_centres(grid: Grid, device: torch.device | None = None) -> Float[Tensor, "position 2"]:
    """Return the centre (x, y) of every grid position in the unit frame, row by row.

    Example:
        >>> grid_centres((1, 2))
        tensor([[-0.5000,  0.0000],
                [ 0.5000,  0.0000]])
    """
    y, x = torch.meshgrid(axis_centres(grid[0], device), axis_centres(grid[1], device), indexing="ij")
    return torch.stack([x, y], dim=-1).reshape(-1, 2)


def smallest_radius(grid: Grid) -> float:
    """Return the smallest sampler radius (unit frame) that leaves no point of the image without a grid centre.

    A point is at most half a cell's diagonal away from the nearest centre. The radius is 5 % larger, so that the
    weight of that centre stays clearly above zero.
    """
    return 1.05 * hypot(1.0 / grid[0], 1.0 / grid[1])
