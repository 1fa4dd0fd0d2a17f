"""Two consecutive 3×3 convolutions by Winograd's algorithm, for inference on the CPU.

A tile of m×m outputs needs (m + 2)² multiplications per pair of channels instead of 9 m²: 5.06 times fewer for m = 6.
They take the form of (m + 2)² large matrix products, one per element of a transformed tile. The hidden channels between
the two convolutions are processed in slices, so that they are never all in memory.
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

from mambamatcher.kernels.threads import run
from mambamatcher.ops.native.memory import empty_as
from mambamatcher.ops.native.threads import thread_count

KERNEL = 3
# Interpolation points by tile size, besides infinity. Small powers of two lose the least precision.
POINTS = {4: (0.0, 1.0, -1.0, 2.0, -2.0), 6: (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)}
SLICE = 256  # hidden channels per slice: enough for matrix products at full speed
TILES_AT_ONCE = 1024  # limits the memory for any number and size of maps

Maps = Float[Tensor, "map channel h w"]


class HiddenSlice(NamedTuple):
    """Transformed weights of a slice of hidden channels: first convolution, its bias, second convolution."""

    widen: Float[Tensor, "element channel hidden"]
    bias: Float[Tensor, " hidden"]
    narrow: Float[Tensor, "element hidden channel"]


class Matrices(NamedTuple):
    """The transforms of inputs, weights and outputs: y = output · ((weight · w) ⊙ (input · x))."""

    input: Float[np.ndarray, "side side"]
    weight: Float[np.ndarray, "side 3"]
    output: Float[np.ndarray, "tile side"]


@cache
def matrices(tile: int) -> Matrices:
    """Compute the transforms for a tile size by the Toom-Cook construction."""
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
    """Return the number of tiles that cover a grid."""
    return ceil(grid[0] / tile) * ceil(grid[1] / tile)


def best_tile(grid: tuple[int, int]) -> int:
    """Return the tile size with the fewest multiplications. A size that does not divide the grid wastes some."""
    return min(POINTS, key=lambda tile: tiles_of(grid, tile) * (tile + KERNEL - 1) ** 2)


def working_bytes(count: int, channels: int, grid: tuple[int, int]) -> int:
    """Estimate the temporary memory in bytes of `convolve_twice`, besides weights, maps and result."""
    tile = best_tile(grid)
    tiles = min(count * tiles_of(grid, tile), max(TILES_AT_ONCE, tiles_of(grid, tile)))
    return 4 * (tile + KERNEL - 1) ** 2 * tiles * (2 * channels + SLICE)


def fits(widen: Float[Tensor, "hidden channel kh kw"]) -> bool:
    """Return whether the kernels support these weights: 3×3, and channel counts that are multiples of LANES."""
    from mambamatcher.kernels.lanes import LANES  # importing Numba takes 0.3 s

    hidden, channels, *size = widen.shape
    return size == [KERNEL, KERNEL] and hidden % LANES == 0 and channels % LANES == 0


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of both convolutions. Every iteration computes the transformed weights again, slice by slice."""

    widen: Float[Tensor, "hidden channel 3 3"]
    bias: Float[Tensor, " hidden"]
    narrow: Float[Tensor, "channel hidden 3 3"]
    tile: int

    def __iter__(self) -> Iterator[HiddenSlice]:
        weight = matrices(self.tile).weight
        both_axes = torch.from_numpy(np.kron(weight, weight))
        for start in range(0, len(self.widen), SLICE):
            part = slice(start, start + SLICE)
            widen, narrow = (_transformed(both_axes, each) for each in (self.widen[part], self.narrow[:, part]))
            yield HiddenSlice(widen, self.bias[part], narrow)


def _transformed(
    both_axes: Float[Tensor, "element 9"], weight: Float[Tensor, "out in 3 3"]
) -> Float[Tensor, "element in out"]:
    flat = weight.permute(2, 3, 1, 0).reshape(KERNEL**2, -1)
    transformed = empty_as(torch.empty(len(both_axes), flat.shape[1], device="meta"))
    return torch.mm(both_axes, flat, out=transformed).unflatten(1, (weight.shape[1], weight.shape[0]))


def convolve_twice(
    maps: Maps, slices: Iterable[HiddenSlice], bias: Float[Tensor, " channel"], tile: int, activate: bool
) -> Maps:
    """Apply a convolution, ReLU and a second convolution; both keep the size of the maps.

    Args:
        maps: Input maps.
        slices: Transformed weights: `Weights`, or a list of its slices.
        bias: Bias of the second convolution.
        tile: Tile size for which the weights were transformed.
        activate: Whether a ReLU follows the second convolution.

    Returns:
        Output maps, channels last in memory.
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
    slices: Iterable[HiddenSlice],
    bias: Float[Tensor, " channel"],
    tile: int,
    activate: bool,
    result: Float[Tensor, "map h w channel"],
) -> None:
    # Imported here because importing Numba takes 0.3 s.
    from mambamatcher.kernels.winograd import transform_hidden, transform_inputs, transform_outputs

    count, channels, height, width = maps.shape
    grid = np.array([height, width])
    forward, _, back = matrices(tile)
    elements, tiles = forward.size, count * tiles_of((height, width), tile)
    each, threads = range(count), thread_count()
    input_tiles = empty_as(torch.empty(elements, tiles, channels, device="meta"))
    run(transform_inputs, [(maps.numpy(), forward, input_tiles.numpy(), tile, m) for m in each], threads)
    output_tiles = torch.zeros(elements, tiles, channels)
    memory = empty_as(torch.empty(elements * tiles * SLICE, device="meta"))
    for piece in slices:
        hidden = memory[: elements * tiles * len(piece.bias)].view(elements, tiles, -1)
        torch.bmm(input_tiles, piece.widen, out=hidden)
        run(transform_hidden, [(hidden.numpy(), piece.bias.numpy(), back, forward, grid, m) for m in each], threads)
        output_tiles.baddbmm_(hidden, piece.narrow)
    run(
        transform_outputs,
        [(output_tiles.numpy(), bias.numpy(), back, activate, result.numpy(), m) for m in each],
        threads,
    )
