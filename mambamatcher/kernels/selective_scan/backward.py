"""Gradients of the scan on the CPU.

Tiles are processed from the last to the first. In each tile the states are recomputed from the one stored at its start,
then the gradient of the state is propagated back through the tile. B and C are shared by all channels of a group, so
their gradients are sums over channels: eight partial sums per entry are accumulated over the blocks of a span and added
once per tile. Spans depend on the sizes only, so the results do not depend on the number of threads.
"""

import numpy as np
from numba import float32, int64, types

from mambamatcher.kernels.build import inlined, kernel
from mambamatcher.kernels.functions import LN_2, LOG2_E, ONE, ZERO, exp2, hold, hold_slope, sigmoid, softplus
from mambamatcher.kernels.lanes import LANES, Lanes, load, madd, splat, spread, store, total
from mambamatcher.kernels.selective_scan.forward import INPUTS, OPTIONS, take_row
from mambamatcher.kernels.selective_scan.tiles import STEPS, gather, gather_matrix, gather_rows, locate, scatter

_GIVEN = types.Tuple([float32[:, :, :], float32[:, :, :], float32[:, :, :, :]])
_WANTED = types.Tuple(
    [
        float32[:, :, :],  # u
        float32[:, :, :],  # delta
        float32[:, :, :],  # z
        float32[:, :, :],  # A, per sequence
        float32[:, :, :],  # weight, per sequence
        float32[:, :],  # D, per sequence
        float32[:, :],  # delta_bias, per sequence
    ]
)
_SHARES = types.UniTuple(float32[:, :], 2)  # one span's part of the gradients of B and C, (length, state)


@inlined
def prepare_with_slope(raw: np.ndarray, slope: np.ndarray, bias: np.ndarray, use_softplus: bool, steps: int) -> None:
    """Apply bias and softplus to a tile of Δ in place, and store the derivative."""
    shift = load(bias, 0)
    for t in range(steps):
        value = load(raw, t * LANES) + shift
        store(raw, t * LANES, softplus(value) if use_softplus else value)
        store(slope, t * LANES, sigmoid(value) if use_softplus else splat(ONE))


@inlined
def replay(
    tiles: tuple, memory: tuple, rates: np.ndarray, weights: np.ndarray, zoh: bool, weighted: bool, steps: int
) -> None:
    """Recompute a tile and store all states and decays, and the output before D·u and the gate."""
    u, delta, b, c, y = tiles
    states, decays = memory
    modes = b.size // STEPS
    size = modes * LANES
    for t in range(steps):
        d, x = load(delta, t * LANES), load(u, t * LANES)
        driven = d * x
        out = splat(ZERO)
        for n in range(modes):
            place = t * size + n * LANES
            rate = load(rates, n * LANES)
            exponent = d * rate
            if zoh:
                driven = hold(exponent, rate, d) * x
            decay = exp2(exponent)
            h = madd(decay, load(states, place), driven * spread(b, t * modes + n))
            store(decays, place, decay)
            store(states, place + size, h)
            if weighted:
                h = h * load(weights, n * LANES)
            out = madd(spread(c, t * modes + n), h, out)
        store(y, t * LANES, out)


@inlined
def backpropagate_gate(tiles: tuple, gate: np.ndarray, gradient: np.ndarray, skip: np.ndarray, steps: int) -> None:
    """Propagate a tile of output gradients back through the gate. `gate` is replaced by its gradient."""
    u, _, _, _, y = tiles
    scale = load(skip, 0)
    for t in range(steps):
        z, dy = load(gate, t * LANES), load(gradient, t * LANES)
        s = sigmoid(z)
        out = madd(scale, load(u, t * LANES), load(y, t * LANES))
        store(gate, t * LANES, dy * out * (s * madd(z, splat(ONE) - s, splat(ONE))))
        store(gradient, t * LANES, dy * (z * s))


@inlined
def accumulate(target: np.ndarray, place: int, factor: Lanes, other: Lanes) -> None:
    """Add the product of two vectors to the eight floats at `place`."""
    store(target, place, madd(factor, other, load(target, place)))


@inlined
def backpropagate_scan(
    tiles: tuple,
    memory: tuple,
    constants: tuple,
    carry: np.ndarray,
    sums: np.ndarray,
    shared: tuple,
    zoh: bool,
    weighted: bool,
    steps: int,
) -> None:
    """Propagate the gradient of the state from the end of a tile to its start.

    The tile of u is replaced by the gradient of u, and the tile of output gradients by the gradient of Δ. `sums`
    accumulates the gradients of A, weight and D.
    """
    u, delta, b, c, dy_delta = tiles
    states, decays = memory
    rates, weights, skip = constants
    b_sums, c_sums = shared
    modes = b.size // STEPS
    size = modes * LANES
    for t in range(steps - 1, -1, -1):
        d, x, dy = load(delta, t * LANES), load(u, t * LANES), load(dy_delta, t * LANES)
        driven = d * x
        d_driven, d_delta = splat(ZERO), splat(ZERO)
        for n in range(modes):
            mode, place = n * LANES, t * size + n * LANES
            rate, before, decay = load(rates, mode), load(states, place), load(decays, place)
            after = load(states, place + size)
            b_n, c_n = spread(b, t * modes + n), spread(c, t * modes + n)
            dy_n = dy
            if weighted:
                accumulate(sums, size + mode, dy * c_n, after)
                dy_n = dy * load(weights, mode)
            accumulate(c_sums, place, dy_n, after)
            g = madd(dy_n, c_n, load(carry, mode))
            decayed = g * decay
            store(carry, mode, decayed)
            if zoh:
                exponent = d * rate
                held = hold(exponent, rate, d)
                accumulate(b_sums, place, g * held, x)
                d_held = g * b_n
                d_driven = madd(d_held, held, d_driven)
                d_delta = madd(decayed, madd(before, rate * splat(LN_2), x * b_n), d_delta)
                slope = hold_slope(exponent, rate, d, decay, held)
                accumulate(sums, mode, decayed * before, d)
                accumulate(sums, mode, d_held * x, slope)
            else:
                accumulate(b_sums, place, g, driven)
                d_driven = madd(g, b_n, d_driven)
                flow = decayed * before
                d_delta = madd(flow, rate, d_delta)
                accumulate(sums, mode, flow, d)
        accumulate(sums, 2 * size, dy, x)
        passed = dy * load(skip, 0)
        if zoh:
            store(u, t * LANES, d_driven + passed)
            store(dy_delta, t * LANES, d_delta)
        else:
            store(u, t * LANES, madd(d_driven, d, passed))
            store(dy_delta, t * LANES, madd(d_delta, splat(LN_2), d_driven * x))


@inlined
def add_lanes(sums: np.ndarray, start: int, steps: int, target: np.ndarray) -> None:
    """Write the sum of the eight partial sums of every entry to `target` (position, state), and reset them."""
    modes = target.shape[1]
    for t in range(steps):
        for n in range(modes):
            place = (t * modes + n) * LANES
            target[start + t, n] = total(load(sums, place))
            store(sums, place, splat(ZERO))


@inlined
def backpropagate_softplus(gradient: np.ndarray, slope: np.ndarray, sums: np.ndarray, steps: int) -> None:
    """Propagate a tile of gradients of Δ back through the softplus, and add them to the gradient of the bias."""
    place = sums.size - LANES
    for t in range(steps):
        value = load(gradient, t * LANES) * load(slope, t * LANES)
        store(gradient, t * LANES, value)
        store(sums, place, load(sums, place) + value)


@kernel(types.void(INPUTS, OPTIONS, _GIVEN, _WANTED, _SHARES, int64, int64, int64))
def scan_backward(
    inputs: tuple, options: tuple, given: tuple, wanted: tuple, shares: tuple, batch: int, first: int, last: int
) -> None:
    """Compute the gradients for blocks first … last - 1, all of one group, of one sequence."""
    u, delta, A, B, C, weight, D, z, delta_bias = inputs
    use_softplus, zoh, gated, weighted = options
    dy, d_last, starts = given
    du, d_delta, dz, dA, d_weight, dD, d_bias = wanted
    dim, length = u.shape[1], u.shape[2]
    groups, modes = B.shape[1], B.shape[2]
    size, count_blocks = modes * LANES, last - first

    rates = np.zeros((count_blocks, size), np.float32)
    weights = np.zeros((count_blocks, size), np.float32)
    carry = np.zeros((count_blocks, size), np.float32)
    for k in range(count_blocks):
        _, channel, count = locate(first + k, dim, groups)
        gather_matrix(A, channel, count, LOG2_E, rates[k])
        gather_matrix(d_last[batch], channel, count, ONE, carry[k])
        if weighted:
            gather_matrix(weight, channel, count, ONE, weights[k])

    scratch = np.empty((6, STEPS * LANES), np.float32)
    u_tile, delta_tile, z_tile = scratch[0], scratch[1], scratch[2]
    y_tile, dy_tile, slope_tile = scratch[3], scratch[4], scratch[5]
    b_tile, c_tile = np.empty(STEPS * modes, np.float32), np.empty(STEPS * modes, np.float32)
    skip, bias = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    memory = (np.empty((STEPS + 1) * size, np.float32), np.empty(STEPS * size, np.float32))
    shared = (np.zeros(STEPS * size, np.float32), np.zeros(STEPS * size, np.float32))
    # Gradients of A, weight, D and delta_bias: float32 within a tile, float64 over up to millions of steps.
    sums = np.empty(2 * size + 2 * LANES, np.float32)
    totals = np.zeros((count_blocks, sums.size), np.float64)

    group = locate(first, dim, groups)[0]
    for tile in range((length - 1) // STEPS, -1, -1):
        start = tile * STEPS
        steps = min(STEPS, length - start)
        gather_rows(B, batch, group, start, steps, b_tile)
        gather_rows(C, batch, group, start, steps, c_tile)
        for k in range(count_blocks):
            _, channel, count = locate(first + k, dim, groups)
            take_row(D, channel, count, skip)
            take_row(delta_bias, channel, count, bias)
            gather(u, batch, channel, count, start, steps, u_tile)
            gather(delta, batch, channel, count, start, steps, delta_tile)
            gather(dy, batch, channel, count, start, steps, dy_tile)
            prepare_with_slope(delta_tile, slope_tile, bias, use_softplus, steps)
            memory[0][:size] = starts[batch, first + k, tile]
            forward_tiles = (u_tile, delta_tile, b_tile, c_tile, y_tile)
            replay(forward_tiles, memory, rates[k], weights[k], zoh, weighted, steps)
            if gated:
                gather(z, batch, channel, count, start, steps, z_tile)
                backpropagate_gate(forward_tiles, z_tile, dy_tile, skip, steps)
                scatter(z_tile, batch, channel, count, start, steps, dz)
            sums[:] = ZERO
            backward_tiles = (u_tile, delta_tile, b_tile, c_tile, dy_tile)
            constants = (rates[k], weights[k], skip)
            backpropagate_scan(backward_tiles, memory, constants, carry[k], sums, shared, zoh, weighted, steps)
            backpropagate_softplus(dy_tile, slope_tile, sums, steps)
            totals[k] += sums
            scatter(u_tile, batch, channel, count, start, steps, du)
            scatter(dy_tile, batch, channel, count, start, steps, d_delta)
        add_lanes(shared[0], start, steps, shares[0])
        add_lanes(shared[1], start, steps, shares[1])

    for k in range(count_blocks):
        _, channel, count = locate(first + k, dim, groups)
        for c in range(count):
            dD[batch, channel + c] = totals[k, 2 * size + c]
            d_bias[batch, channel + c] = totals[k, 2 * size + LANES + c]
            for n in range(modes):
                dA[batch, channel + c, n] = totals[k, n * LANES + c]
                d_weight[batch, channel + c, n] = totals[k, size + n * LANES + c]
