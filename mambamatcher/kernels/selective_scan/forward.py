"""The scan on the CPU, for blocks of eight channels.

The state of a block is stored as [state, channel], channels innermost, so that one vector instruction updates one mode
of eight channels. Each block processes the sequence tile by tile. The state at the start of each tile is stored for the
backward pass, which recomputes the others.
"""

import numpy as np
from numba import boolean, float32, int64, types

from mambamatcher.kernels.build import inlined, kernel
from mambamatcher.kernels.functions import LOG2_E, ONE, ZERO, exp2, hold, sigmoid, softplus
from mambamatcher.kernels.lanes import LANES, load, madd, splat, spread, store
from mambamatcher.kernels.selective_scan.tiles import STEPS, gather, gather_matrix, gather_rows, locate, scatter

# u, delta, A, B, C, weight, D, z, delta_bias
INPUTS = types.Tuple(
    [
        float32[:, :, :],
        float32[:, :, :],
        float32[:, :],
        float32[:, :, :, :],
        float32[:, :, :, :],
        float32[:, :],
        float32[:],
        float32[:, :, :],
        float32[:],
    ]
)
# softplus, zero-order hold, gated, weighted
OPTIONS = types.UniTuple(boolean, 4)

_OUTPUTS = types.Tuple([float32[:, :, :], float32[:, :, :], float32[:, :, :, :]])


@inlined
def prepare_delta(raw: np.ndarray, bias: np.ndarray, use_softplus: bool, steps: int) -> None:
    """Apply bias and softplus to a tile of Δ, in place."""
    shift = load(bias, 0)
    for t in range(steps):
        value = load(raw, t * LANES) + shift
        store(raw, t * LANES, softplus(value) if use_softplus else value)


@inlined
def advance(
    tiles: tuple,
    rates: np.ndarray,
    weights: np.ndarray,
    states: np.ndarray,
    at: int,
    zoh: bool,
    weighted: bool,
    steps: int,
) -> None:
    """Scan one tile with one block; `at` is the offset of its rates, weights and states."""
    u, delta, b, c, y = tiles
    modes = b.size // STEPS
    for t in range(steps):
        d, x = load(delta, t * LANES), load(u, t * LANES)
        driven = d * x
        out = splat(ZERO)
        for n in range(modes):
            place = at + n * LANES
            rate = load(rates, place)
            exponent = d * rate
            if zoh:
                driven = hold(exponent, rate, d) * x
            h = madd(exp2(exponent), load(states, place), driven * spread(b, t * modes + n))
            store(states, place, h)
            if weighted:
                h = h * load(weights, place)
            out = madd(spread(c, t * modes + n), h, out)
        store(y, t * LANES, out)


@inlined
def finish(tiles: tuple, gate: np.ndarray, skip: np.ndarray, gated: bool, steps: int) -> None:
    """Add D·u to a tile of outputs and apply the gate, in place."""
    u, _, _, _, y = tiles
    scale = load(skip, 0)
    for t in range(steps):
        out = madd(scale, load(u, t * LANES), load(y, t * LANES))
        if gated:
            z = load(gate, t * LANES)
            out = out * (z * sigmoid(z))
        store(y, t * LANES, out)


@inlined
def take_row(source: np.ndarray, channel: int, count: int, row: np.ndarray) -> None:
    """Copy `count` entries of a per-channel vector and fill up with zeros."""
    row[:] = ZERO
    for c in range(count):
        row[c] = source[channel + c]


@kernel(types.void(INPUTS, OPTIONS, _OUTPUTS, int64, int64, int64))
def scan_forward(inputs: tuple, options: tuple, outputs: tuple, batch: int, first: int, last: int) -> None:
    """Scan blocks first … last - 1 of one sequence."""
    u, delta, A, B, C, weight, D, z, delta_bias = inputs
    use_softplus, zoh, gated, weighted = options
    y, last_state, starts = outputs
    dim, length = u.shape[1], u.shape[2]
    groups, modes = B.shape[1], B.shape[2]
    size = modes * LANES

    states = np.zeros((last - first) * size, np.float32)
    rates = np.empty((last - first) * size, np.float32)
    weights = np.empty((last - first) * size, np.float32)
    for block in range(first, last):
        _, channel, count = locate(block, dim, groups)
        place = (block - first) * size
        gather_matrix(A, channel, count, LOG2_E, rates[place : place + size])
        if weighted:
            gather_matrix(weight, channel, count, ONE, weights[place : place + size])

    channel_tiles = np.empty((4, STEPS * LANES), np.float32)
    u_tile, delta_tile, z_tile, y_tile = channel_tiles[0], channel_tiles[1], channel_tiles[2], channel_tiles[3]
    b_tile, c_tile = np.empty(STEPS * modes, np.float32), np.empty(STEPS * modes, np.float32)
    skip, bias = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    tiles = (u_tile, delta_tile, b_tile, c_tile, y_tile)
    for start in range(0, length, STEPS):
        steps = min(STEPS, length - start)
        loaded = -1  # the group whose B and C are in the tiles
        for block in range(first, last):
            group, channel, count = locate(block, dim, groups)
            place = (block - first) * size
            if group != loaded:
                gather_rows(B, batch, group, start, steps, b_tile)
                gather_rows(C, batch, group, start, steps, c_tile)
                loaded = group
            take_row(D, channel, count, skip)
            take_row(delta_bias, channel, count, bias)
            gather(u, batch, channel, count, start, steps, u_tile)
            gather(delta, batch, channel, count, start, steps, delta_tile)
            if gated:
                gather(z, batch, channel, count, start, steps, z_tile)
            starts[batch, block, start // STEPS] = states[place : place + size]
            prepare_delta(delta_tile, bias, use_softplus, steps)
            advance(tiles, rates, weights, states, place, zoh, weighted, steps)
            finish(tiles, z_tile, skip, gated, steps)
            scatter(y_tile, batch, channel, count, start, steps, y)

    for block in range(first, last):
        _, channel, count = locate(block, dim, groups)
        for n in range(modes):
            for c in range(count):
                last_state[batch, channel + c, n] = states[(block - first) * size + n * LANES + c]
