"""Orders in which a flattened grid can be scanned. The grid may have any number of dimensions."""

from collections.abc import Callable
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mambamatcher.ops.ordering import invert, stable_argsort
from mambamatcher.registry import Registry

Shape = tuple[int, ...]
Order = Int[Tensor, "batch position"]
Similarity = Float[Tensor, "batch position"]

MANY = 16  # sequences; fewer and longer ones are reordered faster one by one
MAX_ORDERS = 16  # of one layer; each has a block of its own
SCAN_ORDERS: Registry[Callable[[Similarity, Shape], Order]] = Registry("scan order")


def take(sequence: Float[Tensor, "batch position channel"], order: Order) -> Float[Tensor, "batch position channel"]:
    """Reorder the positions of each sequence; `invert(order)` undoes it."""
    if len(sequence) > MANY:
        return torch.take_along_dim(sequence, order[..., None], dim=1)
    return torch.stack([each[index] for each, index in zip(sequence, order, strict=True)])


def _same_for_all(order: Int[Tensor, " position"], similarity: Similarity) -> Order:
    return order.to(similarity.device).expand(len(similarity), -1)


@SCAN_ORDERS.register("descending")
def descending(similarity: Similarity, shape: Shape) -> Order:
    """Highest similarity first: the similarity-aware order (Sec. 4.2)."""
    return stable_argsort(similarity, descending=True)


@SCAN_ORDERS.register("ascending")
def ascending(similarity: Similarity, shape: Shape) -> Order:
    """Lowest similarity first."""
    return stable_argsort(similarity, descending=False)


@SCAN_ORDERS.register("raster")
def raster(similarity: Similarity, shape: Shape) -> Order:
    """Row-major order, as the positions are stored."""
    return _same_for_all(torch.arange(prod(shape)), similarity)


@SCAN_ORDERS.register("reverse_raster")
def reverse_raster(similarity: Similarity, shape: Shape) -> Order:
    """The reverse of raster; both together form the bidirectional scan."""
    return _same_for_all(torch.arange(prod(shape)).flip(0), similarity)


@SCAN_ORDERS.register("z_order")
def z_order(similarity: Similarity, shape: Shape) -> Order:
    """Z-order (Morton) curve: sort by the interleaved bits of the coordinates."""
    coordinates = torch.stack(torch.meshgrid(*map(torch.arange, shape), indexing="ij"), dim=-1).reshape(-1, len(shape))
    code = torch.zeros(len(coordinates), dtype=torch.int64)
    for bit in range(max(shape).bit_length()):
        for axis in range(len(shape)):
            place = bit * len(shape) + (len(shape) - 1 - axis)
            code |= ((coordinates[:, axis] >> bit) & 1) << place
    return _same_for_all(code.argsort(), similarity)


@SCAN_ORDERS.register("random")
def random(similarity: Similarity, shape: Shape) -> Order:
    """A random permutation, fixed for each grid size: a control experiment for the other orders."""
    generator = torch.Generator().manual_seed(prod(shape))
    return _same_for_all(torch.randperm(prod(shape), generator=generator), similarity)


def snake(shape: Shape, fastest: int) -> Int[Tensor, " position"]:
    """Return a continuous path through the grid: consecutive positions are always neighbours.

    Args:
        shape: Size of the grid along each axis.
        fastest: The axis that varies fastest. The other axes keep their order, the first one slowest.

    Returns:
        Flat indices of the positions along the path.

    Example:
        >>> snake((2, 3), fastest=1)
        tensor([0, 1, 2, 5, 4, 3])
    """
    axes = [axis for axis in range(len(shape)) if axis != fastest] + [fastest]
    grid = torch.arange(prod(shape)).reshape(shape).permute(axes)
    for axis in range(1, grid.ndim):
        # reverse every second line along this axis, counting the lines of all slower axes
        lines = grid.reshape(-1, *grid.shape[axis:]).clone()
        lines[1::2] = lines[1::2].flip(1)
        grid = lines.reshape(grid.shape)
    return grid.reshape(-1)


def directions(path: Int[Tensor, " position"], shape: Shape) -> Int[Tensor, " position"]:
    """Return the direction in which a path enters each of its positions.

    The first position has direction 0. A step along an axis has direction 2·axis + 1 forwards, 2·axis + 2 backwards.

    Example:
        >>> directions(snake((2, 3), fastest=1), (2, 3))
        tensor([0, 3, 3, 1, 4, 4])
    """
    coordinates = torch.stack(torch.unravel_index(path, shape), dim=-1)
    steps = coordinates.diff(dim=0)
    axis = steps.abs().argmax(dim=1)
    backwards = steps.gather(1, axis[:, None]).squeeze(1) < 0
    return torch.cat([torch.zeros(1, dtype=torch.int64), 1 + 2 * axis + backwards])


__all__ = ["MAX_ORDERS", "SCAN_ORDERS", "directions", "invert", "snake", "take"]
