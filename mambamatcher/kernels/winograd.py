"""The compiled transforms of Winograd's algorithm, for eight channels of one map at a time.

`plane` is a zero-padded copy of eight channels of a map, channels innermost; it stays in the cache. Transformed tiles
are stored as (element, tile, channel), the layout that the matrix products need.
"""

import numpy as np
from numba import boolean, float32, int64, types

from mambamatcher.kernels.build import inlined, kernel
from mambamatcher.kernels.functions import ZERO
from mambamatcher.kernels.lanes import LANES, at_least, load, madd, splat, spread, store

_MATRIX = float32[:, ::1]
_TILES = float32[:, :, ::1]


@inlined
def multiply(
    matrix: np.ndarray, source: np.ndarray, start: int, steps: tuple, out: np.ndarray, at: int, gaps: tuple
) -> None:
    """Multiply a small matrix with two adjacent columns of vectors, so that each coefficient is loaded once for both.

    `steps` and `gaps` are the strides, in floats, between the rows and between the columns of source and output.
    """
    rows, columns = matrix.shape
    step, beside = steps
    gap, aside = gaps
    for row in range(rows):
        one, two = splat(ZERO), splat(ZERO)
        for column in range(columns):
            factor = spread(matrix, row * columns + column)
            one = madd(factor, load(source, start + column * step), one)
            two = madd(factor, load(source, start + column * step + beside), two)
        store(out, at + row * gap, one)
        store(out, at + row * gap + aside, two)


@inlined
def plane_to_tiles(
    plane: np.ndarray, width: int, forward: np.ndarray, tiles: np.ndarray, first: int, counts: tuple
) -> None:
    """Transform every tile of a plane and write it to `tiles`; `first` is the offset of the first one."""
    side = forward.shape[0]
    tile = side - 2
    down, across = counts
    step = tiles.shape[1] * tiles.shape[2]
    half = np.empty(side * side * LANES, np.float32)
    column_steps, half_steps = (width * LANES, LANES), (LANES, side * LANES)
    for index in range(across * down):
        corner = (index // across * tile * width + index % across * tile) * LANES
        for x in range(0, side, 2):
            multiply(forward, plane, corner + x * LANES, column_steps, half, x * LANES, (side * LANES, LANES))
        place = first + index * tiles.shape[2]
        for y in range(0, side, 2):
            multiply(forward, half, y * side * LANES, half_steps, tiles, place + y * side * step, (step, side * step))


@inlined
def tile_to_values(tiles: np.ndarray, place: int, back: np.ndarray, half: np.ndarray, values: np.ndarray) -> None:
    """Apply the output transform to one tile and write the result to `values`."""
    tile, side = back.shape
    step = tiles.shape[1] * tiles.shape[2]
    for x in range(0, side, 2):
        multiply(back, tiles, place + x * step, (side * step, step), half, x * LANES, (side * LANES, LANES))
    for y in range(0, tile, 2):
        start, at = y * side * LANES, y * tile * LANES
        multiply(back, half, start, (LANES, side * LANES), values, at, (LANES, tile * LANES))


@kernel(types.void(float32[:, :, :, :], _MATRIX, _TILES, int64, int64))
def transform_inputs(maps: np.ndarray, forward: np.ndarray, tiles: np.ndarray, tile: int, index: int) -> None:
    """Split one map into overlapping tiles and transform them."""
    _, channels, height, width = maps.shape
    down, across = -(-height // tile), -(-width // tile)
    stride = across * tile + 2
    plane = np.zeros((down * tile + 2) * stride * LANES, np.float32)
    for channel in range(0, channels, LANES):
        for lane in range(LANES):
            for y in range(height):
                for x in range(width):
                    plane[((y + 1) * stride + x + 1) * LANES + lane] = maps[index, channel + lane, y, x]
        plane_to_tiles(plane, stride, forward, tiles, index * down * across * tiles.shape[2] + channel, (down, across))


@kernel(types.void(_TILES, float32[:], _MATRIX, _MATRIX, int64[:], int64))
def transform_hidden(
    tiles: np.ndarray, bias: np.ndarray, back: np.ndarray, forward: np.ndarray, grid: np.ndarray, index: int
) -> None:
    """Turn the outputs of the first convolution for one map into inputs of the second, in place."""
    tile, side = back.shape
    height, width = grid
    down, across = -(-height // tile), -(-width // tile)
    stride = across * tile + 2
    plane = np.zeros((down * tile + 2) * stride * LANES, np.float32)
    half, values = np.empty(side * side * LANES, np.float32), np.empty(tile * tile * LANES, np.float32)
    for channel in range(0, tiles.shape[2], LANES):
        shift = load(bias, channel)
        for number in range(down * across):
            row, column = number // across * tile, number % across * tile
            tile_to_values(tiles, (index * down * across + number) * tiles.shape[2] + channel, back, half, values)
            for y in range(min(tile, height - row)):
                for x in range(min(tile, width - column)):
                    value = at_least(load(values, (y * tile + x) * LANES) + shift, splat(ZERO))
                    store(plane, ((row + y + 1) * stride + column + x + 1) * LANES, value)
        plane_to_tiles(plane, stride, forward, tiles, index * down * across * tiles.shape[2] + channel, (down, across))


@kernel(types.void(_TILES, float32[:], _MATRIX, boolean, float32[:, :, :, ::1], int64))
def transform_outputs(
    tiles: np.ndarray, bias: np.ndarray, back: np.ndarray, activate: bool, maps: np.ndarray, index: int
) -> None:
    """Write the outputs of the second convolution for one map to `maps`, channels last."""
    tile, side = back.shape
    _, height, width, channels = maps.shape
    down, across = -(-height // tile), -(-width // tile)
    half, values = np.empty(side * side * LANES, np.float32), np.empty(tile * tile * LANES, np.float32)
    for channel in range(0, channels, LANES):
        shift = load(bias, channel)
        for number in range(down * across):
            row, column = number // across * tile, number % across * tile
            tile_to_values(tiles, (index * down * across + number) * channels + channel, back, half, values)
            for y in range(min(tile, height - row)):
                for x in range(min(tile, width - column)):
                    value = load(values, (y * tile + x) * LANES) + shift
                    if activate:
                        value = at_least(value, splat(ZERO))
                    store(maps, ((index * height + row + y) * width + column + x) * channels + channel, value)
