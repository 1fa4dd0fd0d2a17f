"""Coordinate frames, in NumPy; `model.geometry` has the same for tensors. Points are always (x, y).

pixel   continuous pixel coordinates of the original image: 0 at the left or top edge, width or height at the other
unit    the image scaled to [-1, 1] in both axes; losses, radii and Gaussians are defined in this frame
grid    integer (row, column) of a feature map of size `(height, width)`; position i of n has its centre at
        (i + 1/2) * 2/n - 1 in the unit frame
"""

from math import hypot

import numpy as np
from jaxtyping import Float, Float32

Grid = tuple[int, int]


def pixels_to_unit(points: Float[np.ndarray, "*any 2"], size: tuple[int, int]) -> Float[np.ndarray, "*any 2"]:
    """Convert points from the pixels of a `(width, height)` image to the unit frame.

    Example:
        >>> pixels_to_unit(np.array([[0.0, 0.0], [320.0, 120.0]]), (640, 480))
        array([[-1. , -1. ],
               [ 0. , -0.5]])
    """
    return points * (2.0 / np.asarray(size, dtype=points.dtype)) - 1.0


def unit_to_pixels(points: Float[np.ndarray, "*any 2"], size: tuple[int, int]) -> Float[np.ndarray, "*any 2"]:
    """Convert points from the unit frame to the pixels of a `(width, height)` image.

    Example:
        >>> unit_to_pixels(np.array([[0.0, -0.5]]), (640, 480))
        array([[320., 120.]])
    """
    return (points + 1.0) * (np.asarray(size, dtype=points.dtype) / 2.0)


def axis_centres(count: int) -> Float32[np.ndarray, " count"]:
    """Return the centres of `count` equal cells along one axis, in the unit frame."""
    return (np.arange(count, dtype=np.float32) + np.float32(0.5)) * np.float32(2.0 / count) - np.float32(1.0)


def grid_centres(grid: Grid) -> Float32[np.ndarray, "position 2"]:
    """Return the centre (x, y) of every grid position in the unit frame, row by row.

    Example:
        >>> grid_centres((1, 2))
        array([[-0.5,  0. ],
               [ 0.5,  0. ]], dtype=float32)
    """
    y, x = np.meshgrid(axis_centres(grid[0]), axis_centres(grid[1]), indexing="ij")
    return np.stack([x, y], axis=-1).reshape(-1, 2)


def smallest_radius(grid: Grid) -> float:
    """Return the smallest sampler radius (unit frame) that leaves no point of the image without a grid centre.

    A point is at most half a cell's diagonal away from the nearest centre. The radius is 5 % larger, so that the
    weight of that centre stays clearly above zero.
    """
    return 1.05 * hypot(1.0 / grid[0], 1.0 / grid[1])
