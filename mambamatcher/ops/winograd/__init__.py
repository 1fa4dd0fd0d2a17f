"""Two 3×3 convolutions in a row by Winograd's algorithm, for inference on the CPU.

A tile of m×m results needs (m + 2)² multiplications per pair of channels instead of 9 m²: 5.06 times fewer for m = 6.
What remains are (m + 2)² matrix products, one per place in a tile, which run at the speed of large products. The hidden
channels between the two convolutions are taken a slice at a time, so that they are never all in memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mambamatcher.ops.native.memory import empty_as
from mambamatcher.ops.native.threads import run

KERNEL = 3
# Where the polynomials behind the algorithm are evaluated, besides infinity: small powers of two lose least precision.
POINTS = {4: (0.0, 1.0, -1.0, 2.0, -2.0), 6: (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)}
SLICE = 256  # hidden channels at a time: enough for products at full speed
TILES_AT_ONCE = 1024  # bounds the memory, whatever the number and size of the maps

Maps = Float[Tensor, "map channel h w"]


class Slice(NamedTuple):
    """Transformed weights of some hidden channels: those that make them, their bias, and those that use them."""

    widen: Float[Tensor, "element channel hidden"]
    bias: Float[Tensor, " hidden"]
    narrow: Float[Tensor, "element hidden channel"]


class Matrices(NamedTuple):
    """The transforms of inputs, weights and outputs: y = output · ((weight · w) × (input · x))."""

    input: Float[np.ndarray, "side side"]
    weight: Float[np.ndarray, "side 3"]
    output: Float[np.ndarray, "tile side"]


@cache
def matrices(tile: int) -> Matrices:
    """Derive the transforms for results of `tile` values each from the points (Toom and Cook's construction)."""
    points = np.array(POINTS[tile])
    others = [np.delete(points, i) for i in range(points.size)]
    side = points.size + 1
    forward = np.zeros((side, side))
    for row, roots in zip(forward, [*others, points], strict=True):
        row[: roots.size + 1] = np.poly(roots)[::-1]
    scale = [np.prod(point - roots) for point, roots in zip(points, others, strict=True)]
    weight = np.vstack([np.vander(points, KERNEL, increasing=True) / np.array(scale)[:, None], np.eye(KERNEL)[-1:]])
    output = np.hstack([np.vander(points, tile, increasing=True).T, np.eye(tile)[:, -1:]])
    return Matrices(*(np.ascontiguousarray(each, dtype=np.float32) for each in (forward, weight, output)))


def tiles_of(grid: tuple[int, int], tile: int) -> int:
    """Return how many tiles cover a grid."""
    return ceil(grid[0] / tile) * ceil(grid[1] / tile)


def best_tile(grid: tuple[int, int]) -> int:
    """Return the tile size that leaves the fewest multiplications; one that does not fit the grid wastes some."""
    return min(POINTS, key=lambda tile: tiles_of(grid, tile) * (tile + KERNEL - 1) ** 2)


def working_bytes(count: int, channels: int, grid: tuple[int, int]) -> int:
    """Return how much memory convolving maps takes beyond weights, maps and result."""
    tile = best_tile(grid)
    tiles = min(count * tiles_of(grid, tile), max(TILES_AT_ONCE, tiles_of(grid, tile)))
    return 4 * (tile + KERNEL - 1) ** 2 * tiles * (2 * channels + SLICE)


def fits(widen: Float[Tensor, "hidden channel kh kw"]) -> bool:
    """Say whether the kernels can take such weights: 3×3, and channels in whole vectors."""
    from mambamatcher.ops.native.lanes import LANES  # Numba, as below

    hidden, channels, *size = widen.shape
    return size == [KERNEL, KERNEL] and hidden % LANES == 0 and channels % LANES == 0


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of both convolutions; iterating transforms them anew, a slice of hidden channels at a time."""

    widen: Float[Tensor, "hidden channel 3 3"]
    bias: Float[Tensor, " hidden"]
    narrow: Float[Tensor, "channel hidden 3 3"]
    tile: int

    def __iter__(self) -> Iterator[Slice]:
        weight = matrices(self.tile).weight
        both_axes = torch.from_numpy(np.kron(weight, weight))
        for start in range(0, len(self.widen), SLICE):
            part = slice(start, start + SLICE)
            widen, narrow = (_transformed(both_axes, each) for each in (self.widen[part], self.narrow[:, part]))
            yield Slice(widen, self.bias[part], narrow)


def _transformed(
    both_axes: Float[Tensor, "element 9"], weight: Float[Tensor, "out in 3 3"]
) -> Float[Tensor, "element in out"]:
    flat = weight.permute(2, 3, 1, 0).reshape(KERNEL**2, -1)
    transformed = empty_as(torch.empty(len(both_axes), flat.shape[1], device="meta"))
    return torch.mm(both_axes, flat, out=transformed).unflatten(1, (weight.shape[1], weight.shape[0]))


def convolve_twice(
    maps: Maps, slices: Iterable[Slice], bias: Float[Tensor, " channel"], tile: int, activate: bool
) -> Maps:
    """Widen, apply ReLU, narrow, and apply ReLU again if asked to; both convolutions keep the size of the maps.

    The result lies in memory with its channels side by side.
    """
    count, channels, height, width = maps.shape
    result = empty_as(torch.empty(count, height, width, channels, device="meta"))
    at_once = max(1, TILES_AT_ONCE // tiles_of((height, width), tile))
    for start in range(0, count, at_once):
        part = slice(start, start + at_once)
        _convolve_part(maps[part], slices, bias, tile, activate, result[part])
    return result.permute(0, 3, 1, 2)


def _convolve_part(
    maps: Maps,
    slices: Iterable[Slice],
    bias: Float[Tensor, " channel"],
    tile: int,
    activate: bool,
    result: Float[Tensor, "map h w channel"],
) -> None:
    # Numba: 0.3 s that a model without these convolutions need not wait for
    from mambamatcher.ops.winograd.kernels import leave_tiles, pass_tiles, read_tiles

    count, channels, height, width = maps.shape
    grid = np.array([height, width])
    forward, _, back = matrices(tile)
    elements, tiles = forward.size, count * tiles_of((height, width), tile)
    each = range(count)
    entering = empty_as(torch.empty(elements, tiles, channels, device="meta"))
    run(read_tiles, [(maps.numpy(), forward, entering.numpy(), tile, m) for m in each])
    leaving = torch.zeros(elements, tiles, channels)
    memory = empty_as(torch.empty(elements * tiles * SLICE, device="meta"))
    for piece in slices:
        hidden = memory[: elements * tiles * len(piece.bias)].view(elements, tiles, -1)
        torch.bmm(entering, piece.widen, out=hidden)
        run(pass_tiles, [(hidden.numpy(), piece.bias.numpy(), back, forward, grid, m) for m in each])
        leaving.baddbmm_(hidden, piece.narrow)
    run(leave_tiles, [(leaving.numpy(), bias.numpy(), back, activate, result.numpy(), m) for m in each])
