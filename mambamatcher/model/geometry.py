"""The coordinate frames of `model.frames`, for tensors on any device."""

import torch
from jaxtyping import Float
from torch import Tensor

from mambamatcher.model.frames import Grid


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
