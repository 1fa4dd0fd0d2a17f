"""The compiled steps of the fused refinement. Each step processes one chunk of the sequence.

`project` computes the inputs of the scan for every position. `scan` runs over the chunk, eight channels (a block) at a
time, and writes the contribution of each block to the scores. `combine` adds the contributions. Threads share the
positions in `project` and the blocks in `scan`; both are independent, so results do not depend on the threads.
"""

import numpy as np
from numba import boolean, float32, int64, types

from mambamatcher.kernels.build import inlined, kernel
from mambamatcher.kernels.functions import ONE, ZERO, sigmoid, softplus
from mambamatcher.kernels.lanes import LANES, load, madd, prefetch, splat, spread, store, total
from mambamatcher.kernels.selective_scan.forward import advance
from mambamatcher.kernels.selective_scan.tiles import STEPS

ROWS = 4  # positions per step of a matrix product, so that each weight is loaded once for all of them

_PROJECT_WEIGHTS = types.Tuple(
    [
        float32[:, ::1],  # input projection (level, 2 inner)
        float32[:, ::1],  # convolution (tap, inner)
        float32[::1],  # its bias (inner,)
        float32[:, ::1],  # projection to B, C and Δ (inner, 2 state + rank)
        float32[:, ::1],  # norm: weight and bias (2, level)
        float32[::1],  # direct contribution of a token to its score (level + 1,); the last entry is the bias
    ]
)
_SCAN_WEIGHTS = types.Tuple(
    [
        float32[:, ::1],  # Δ's projection (rank, inner)
        float32[::1],  # its bias (inner,)
        float32[:, ::1],  # decay rates (block, state × 8)
        float32[::1],  # D (inner,)
        float32[::1],  # output and final projection, merged (inner,)
    ]
)
# u and z (row, inner), projections (row, 2 state + rank), contributions to the scores (block + 1, row); the last row of
# the contributions is the direct one of the tokens
_BUFFERS = types.UniTuple(float32[:, ::1], 4)


@inlined
def multiply(rows: np.ndarray, count: int, weight: np.ndarray, first: int, last: int, out: np.ndarray, at: int) -> None:
    """Multiply `count` rows with columns first … last - 1 of a matrix and write the result to `out` from row `at` on.

    The column bounds must be multiples of LANES. `count` may be any number, but up to ROWS - 1 rows past the end are
    read and written.
    """
    inputs, outputs = weight.shape
    for row in range(0, count, ROWS):
        source, target = row * inputs, (at + row) * out.shape[1]
        for column in range(first, last, LANES):
            a, b, c, d = splat(ZERO), splat(ZERO), splat(ZERO), splat(ZERO)
            for k in range(inputs):
                w = load(weight, k * outputs + column)
                a = madd(spread(rows, source + k), w, a)
                b = madd(spread(rows, source + inputs + k), w, b)
                c = madd(spread(rows, source + 2 * inputs + k), w, c)
                d = madd(spread(rows, source + 3 * inputs + k), w, d)
            place = target + column - first
            store(out, place, a)
            store(out, place + out.shape[1], b)
            store(out, place + 2 * out.shape[1], c)
            store(out, place + 3 * out.shape[1], d)


@inlined
def normalise(row: np.ndarray, norm: np.ndarray) -> None:
    """Apply LayerNorm to one token, in place."""
    mean, square = ZERO, ZERO
    for value in row:
        mean += value
    mean /= np.float32(row.size)
    for value in row:
        square += (value - mean) * (value - mean)
    scale = ONE / np.sqrt(square / np.float32(row.size) + np.float32(1e-5))
    for level in range(row.size):
        row[level] = (row[level] - mean) * scale * norm[0, level] + norm[1, level]


@inlined
def copy_row(source: np.ndarray, index: int, target: np.ndarray, row: int) -> None:
    """Copy one row with few instructions, so that the CPU can have loads of many scattered rows in flight."""
    width = target.shape[1]
    start = index * (source.strides[0] // 4)
    whole = width // LANES * LANES
    for column in range(0, whole, LANES):
        store(target, row * width + column, load(source, start + column))
    for column in range(whole, width):
        target[row, column] = source[index, column]


@inlined
def read_tokens(
    sequence: np.ndarray, order: np.ndarray, start: int, rows: np.ndarray, norm: np.ndarray, normed: bool
) -> None:
    """Load the tokens at places start, start + 1, … of the order, with zeros outside the sequence."""
    for row in range(rows.shape[0]):
        position = start + row
        if position < 0 or position >= order.size:
            rows[row] = ZERO
            continue
        copy_row(sequence, order[position], rows, row)
        if normed:
            normalise(rows[row], norm)


@inlined
def convolve(x: np.ndarray, steps: int, taps: np.ndarray, bias: np.ndarray, out: np.ndarray, at: int) -> None:
    """Apply the causal convolution and SiLU; row t of the result uses rows t … t + taps - 1 of x."""
    inner = x.shape[1]
    for t in range(steps):
        for column in range(0, inner, LANES):
            value = load(bias, column)
            for tap in range(taps.shape[0]):
                value = madd(load(taps, tap * inner + column), load(x, (t + tap) * inner + column), value)
            store(out, (at + t) * inner + column, value * sigmoid(value))


@kernel(types.void(float32[:, :], int64[:], _PROJECT_WEIGHTS, boolean, _BUFFERS, int64, int64, int64))
def project(
    sequence: np.ndarray,
    order: np.ndarray,
    weights: tuple,
    normed: bool,
    buffers: tuple,
    start: int,
    first: int,
    last: int,
) -> None:
    """Compute u, z, the projections and the direct contributions of rows first … last - 1 of the chunk at `start`."""
    in_weight, taps, taps_bias, x_weight, norm, own = weights
    u, z, projections, contributions = buffers
    levels, inner, halo = in_weight.shape[0], taps.shape[1], taps.shape[0] - 1
    height = -(-(STEPS + halo) // ROWS) * ROWS
    rows = np.empty((height, levels), np.float32)
    x = np.empty((height, inner), np.float32)
    for row in range(first, last, STEPS):
        steps = min(STEPS, last - row)
        read_tokens(sequence, order, start + row - halo, rows, norm, normed)
        # The tokens of the next tile are scattered in memory: fetch them while this tile is computed.
        for position in range(start + row + STEPS, min(start + row + 2 * STEPS, order.size)):
            prefetch(sequence, order[position] * (sequence.strides[0] // 4))
        multiply(rows, steps + halo, in_weight, 0, inner, x, 0)
        multiply(rows[halo:], steps, in_weight, inner, 2 * inner, z, row)
        convolve(x, steps, taps, taps_bias, u, row)
        multiply(u[row:], steps, x_weight, 0, x_weight.shape[1], projections, row)
        for t in range(steps):
            token = sequence[order[start + row + t]]
            score = own[levels]
            for level in range(levels):
                score += own[level] * token[level]
            contributions[contributions.shape[0] - 1, row + t] = score


@kernel(types.void(_SCAN_WEIGHTS, boolean, _BUFFERS, float32[:, ::1], int64, int64, int64))
def scan(weights: tuple, zoh: bool, buffers: tuple, states: np.ndarray, count: int, first: int, last: int) -> None:
    """Scan blocks first … last - 1 over a chunk of `count` rows, starting from `states` and updating them."""
    delta_weight, delta_bias, rates, skip, fold = weights
    u, z, projections, contributions = buffers
    rank, inner = delta_weight.shape
    modes, width = states.shape[1] // LANES, projections.shape[1]
    u_tile, delta_tile = np.empty(STEPS * LANES, np.float32), np.empty(STEPS * LANES, np.float32)
    y_tile = np.empty(STEPS * LANES, np.float32)
    b_tile, c_tile = np.empty(STEPS * modes, np.float32), np.empty(STEPS * modes, np.float32)
    tiles = (u_tile, delta_tile, b_tile, c_tile, y_tile)
    for row in range(0, count, STEPS):
        steps = min(STEPS, count - row)
        for t in range(steps):
            b_tile[t * modes : (t + 1) * modes] = projections[row + t, :modes]
            c_tile[t * modes : (t + 1) * modes] = projections[row + t, modes : 2 * modes]
        for block in range(first, last):
            column = block * LANES
            for t in range(steps):
                delta = load(delta_bias, column)
                for r in range(rank):
                    low_rank = spread(projections, (row + t) * width + 2 * modes + r)
                    delta = madd(low_rank, load(delta_weight, r * inner + column), delta)
                store(delta_tile, t * LANES, softplus(delta))
                store(u_tile, t * LANES, load(u, (row + t) * inner + column))
            advance(tiles, rates, rates, states, block * modes * LANES, zoh, False, steps)
            for t in range(steps):
                gate = load(z, (row + t) * inner + column)
                out = madd(load(skip, column), load(u_tile, t * LANES), load(y_tile, t * LANES))
                contributions[block, row + t] = total(out * (gate * sigmoid(gate)) * load(fold, column))


@kernel(types.void(int64[:], _BUFFERS, float32[:], int64, int64))
def combine(order: np.ndarray, buffers: tuple, scores: np.ndarray, start: int, count: int) -> None:
    """Add the contributions to every score in a fixed order, and write the score to the token's original position."""
    contributions = buffers[3]
    for row in range(count):
        score = ZERO
        for index in range(contributions.shape[0]):
            score += contributions[index, row]
        scores[order[start + row]] = score
