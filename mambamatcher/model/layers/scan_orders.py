"""Orders in which a flattened grid of any number of dimensions can be scanned."""

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

SCAN_ORDERS: Registry[Callable[[Similarity, Shape], Order]] = Registry("scan order")


def take(sequence: Float[Tensor, "batch position channel"], order: Order) -> Float[Tensor, "batch position channel"]:
    """Bring positions into the given order."""
    return torch.stack([each[index] for each, index in zip(sequence, order, strict=True)])


def _same_for_all(order: Int[Tensor, " position"], similarity: Similarity) -> Order:
    return order.to(similarity.device).expand(len(similarity), -1)


@SCAN_ORDERS.register("descending")
def descending(similarity: Similarity, shape: Shape) -> Order:
    """Strongest match first: the similarity-aware order (Sec. 4.2)."""
    return stable_argsort(similarity, descending=True)


@SCAN_ORDERS.register("ascending")
def ascending(similarity: Similarity, shape: Shape) -> Order:
    """Weakest match first."""
    return stable_argsort(similarity, descending=False)


@SCAN_ORDERS.register("raster")
def raster(similarity: Similarity, shape: Shape) -> Order:
    """As the positions lie in memory."""
    return _same_for_all(torch.arange(prod(shape)), similarity)


@SCAN_ORDERS.register("reverse_raster")
def reverse_raster(similarity: Similarity, shape: Shape) -> Order:
    """From the last position to the first; together with raster, the bidirectional scan."""
    return _same_for_all(torch.arange(prod(shape)).flip(0), similarity)


@SCAN_ORDERS.register("z_order")
def z_order(similarity: Similarity, shape: Shape) -> Order:
    """Along Morton's space-filling curve: by the interleaved bits of the coordinates."""
    coordinates = torch.stack(torch.meshgrid(*map(torch.arange, shape), indexing="ij"), dim=-1).reshape(-1, len(shape))
    code = torch.zeros(len(coordinates), dtype=torch.int64)
    for bit in range(max(shape).bit_length()):
        for axis in range(len(shape)):
            place = bit * len(shape) + (len(shape) - 1 - axis)
            code |= ((coordinates[:, axis] >> bit) & 1) << place
    return _same_for_all(code.argsort(), similarity)


@SCAN_ORDERS.register("random")
def random(similarity: Similarity, shape: Shape) -> Order:
    """One arbitrary permutation, always the same for a given size: a control for the other orders."""
    generator = torch.Generator().manual_seed(prod(shape))
    return _same_for_all(torch.randperm(prod(shape), generator=generator), similarity)


def snake(shape: Shape, fastest: int) -> Int[Tensor, " position"]:
    """Return a path through the grid that moves one step at a time, turning back at each border.

    `fastest` is the axis it runs along first; the others follow in their own order, the first one slowest.
    """
    axes = [axis for axis in range(len(shape)) if axis != fastest] + [fastest]
    grid = torch.arange(prod(shape)).reshape(shape).permute(axes)
    for axis in range(1, grid.ndim):
        # every other line along this axis runs backwards, counted over all lines before it
        lines = grid.reshape(-1, *grid.shape[axis:]).clone()
        lines[1::2] = lines[1::2].flip(1)
        grid = lines.reshape(grid.shape)
    return grid.reshape(-1)


def directions(path: Int[Tensor, " position"], shape: Shape) -> Int[Tensor, " position"]:
    """Say for each step of a path how it was reached: 0 the start, then 2·axis + 1 forwards, 2·axis + 2 backwards."""
    coordinates = torch.stack(torch.unravel_index(path, shape), dim=-1)
    steps = coordinates.diff(dim=0)
    axis = steps.abs().argmax(dim=1)
    backwards = steps.gather(1, axis[:, None]).squeeze(1) < 0
    return torch.cat([torch.zeros(1, dtype=torch.int64), 1 + 2 * axis + backwards])


__all__ = ["SCAN_ORDERS", "directions", "invert", "snake", "take"]
