"""The scan in Triton, forward and backward.

One program per sequence and channel processes the sequence tile by tile; within a tile the recurrence is an associative
scan over (decay, state). As on the CPU, the state before each tile is stored and the backward pass recomputes the rest.
Gradients of B and C are summed over channels with atomic additions, so their low-order bits vary between runs.
Tested in Triton's interpreter only, never on a GPU.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from mambamatcher.ops.selective_scan.operator import Inputs, define, empty_gradients

_STEPS = 128


@triton.jit
def _compose(left_decay, left_state, right_decay, right_state):  # type: ignore[no-untyped-def]
    return left_decay * right_decay, right_decay * left_state + right_state


@triton.jit
def _step_sizes(delta, stride, position, inside, bias, SOFTPLUS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return Δ and its derivative by the raw value. Outside the sequence Δ is 0, which leaves the state unchanged."""
    raw = tl.load(delta + position * stride, mask=inside, other=0.0) + bias
    slope = tl.full(raw.shape, 1.0, tl.float32)
    if SOFTPLUS:
        # log1p(y), accurate for small y: y * log(w) / (w - 1) where w = 1 + y, rounded
        y = tl.exp(-tl.abs(raw))
        w = 1.0 + y
        log1p = tl.where(w == 1.0, y, tl.log(w) * (y / tl.where(w == 1.0, 1.0, w - 1.0)))
        slope = 1.0 / (1.0 + tl.exp(-raw))
        raw = tl.where(raw > 0.0, raw, 0.0) + log1p
        raw = tl.where(slope == slope, raw, slope)  # keep NaN
    return tl.where(inside, raw, 0.0), slope


@triton.jit
def _hold(delta, A, decay, ZOH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the factor of B·u and its derivatives with respect to Δ and A."""
    step = delta + 0.0 * A
    by_delta = tl.full(decay.shape, 1.0, tl.float32)
    by_A = tl.full(decay.shape, 0.0, tl.float32)
    if ZOH:
        x = delta * A
        small = tl.abs(x) < 0.35
        safe = tl.where(small, 1.0, A)
        series = 1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6 * (1 + x / 7)))))
        slope = 0.5 + x * (1 / 3 + x * (1 / 8 + x * (1 / 30 + x * (1 / 144 + x / 840))))
        step = tl.where(small, delta * series, (decay - 1.0) / safe)
        by_A = tl.where(small, delta * delta * slope, (delta * decay - step) / safe)
        by_delta = decay
    return step, by_delta, by_A


@triton.jit
def _row(tile, row):  # type: ignore[no-untyped-def]
    """Return one row of a tile."""
    rows = tl.arange(0, tile.shape[0])
    return tl.sum(tl.where(rows[:, None] == row, tile, 0.0), axis=0)


@triton.jit
def _forward_kernel(  # type: ignore[no-untyped-def]
    u, delta, A, B, C, weight, D, z, bias, y, last_state, starts,
    dim, length, state, per_group, tiles,
    u_b, u_d, u_l, d_b, d_d, d_l, z_b, z_d, z_l, y_b, y_d, y_l,
    b_b, b_g, b_n, b_l, c_b, c_g, c_n, c_l,
    SOFTPLUS: tl.constexpr, ZOH: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_D: tl.constexpr, HAS_Z: tl.constexpr,
    HAS_BIAS: tl.constexpr, STEPS: tl.constexpr, STATES: tl.constexpr,
):  # fmt: skip
    batch, channel = (tl.program_id(0) // dim).to(tl.int64), (tl.program_id(0) % dim).to(tl.int64)
    group = channel // per_group
    n = tl.arange(0, STATES).to(tl.int64)
    exists = n < state
    a = tl.load(A + channel * state + n, mask=exists, other=0.0)
    w = (
        tl.load(weight + channel * state + n, mask=exists, other=0.0)
        if HAS_WEIGHT
        else tl.full((STATES,), 1.0, tl.float32)
    )
    shift = tl.load(bias + channel) if HAS_BIAS else 0.0
    skip = tl.load(D + channel) if HAS_D else 0.0
    carry = tl.zeros((STATES,), tl.float32)
    for tile in range(tiles):
        tl.store(starts + ((batch * dim + channel) * tiles + tile) * state + n, carry, mask=exists)
        t = tile * STEPS + tl.arange(0, STEPS).to(tl.int64)
        inside = t < length
        both = inside[:, None] & exists[None, :]
        x = tl.load(u + batch * u_b + channel * u_d + t * u_l, mask=inside, other=0.0)
        step, _ = _step_sizes(delta + batch * d_b + channel * d_d, d_l, t, inside, shift, SOFTPLUS)
        b = tl.load(B + batch * b_b + group * b_g + n[None, :] * b_n + t[:, None] * b_l, mask=both, other=0.0)
        c = tl.load(C + batch * c_b + group * c_g + n[None, :] * c_n + t[:, None] * c_l, mask=both, other=0.0)
        decay = tl.exp(step[:, None] * a[None, :])
        held, _, _ = _hold(step[:, None], a[None, :], decay, ZOH)
        faded, local = tl.associative_scan((decay, held * b * x[:, None]), 0, _compose)
        states = local + faded * carry[None, :]
        out = tl.sum(states * c * w[None, :], axis=1) + skip * x
        if HAS_Z:
            gate = tl.load(z + batch * z_b + channel * z_d + t * z_l, mask=inside, other=0.0)
            out = out * gate / (1.0 + tl.exp(-gate))
        tl.store(y + batch * y_b + channel * y_d + t * y_l, out, mask=inside)
        carry = _row(states, STEPS - 1)
    tl.store(last_state + (batch * dim + channel) * state + n, carry, mask=exists)


@triton.jit
def _backward_kernel(  # type: ignore[no-untyped-def]
    u, delta, A, B, C, weight, D, z, bias, dy, d_last, starts,
    du, d_delta, dA, dB, dC, d_weight, dD, dz, d_bias,
    dim, length, state, per_group, tiles,
    u_b, u_d, u_l, d_b, d_d, d_l, z_b, z_d, z_l, y_b, y_d, y_l,
    b_b, b_g, b_n, b_l, c_b, c_g, c_n, c_l,
    SOFTPLUS: tl.constexpr, ZOH: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_D: tl.constexpr, HAS_Z: tl.constexpr,
    HAS_BIAS: tl.constexpr, STEPS: tl.constexpr, STATES: tl.constexpr,
):  # fmt: skip
    """Compute all gradients. Those of B and C are (batch, group, length, state), the others like their tensors."""
    batch, channel = (tl.program_id(0) // dim).to(tl.int64), (tl.program_id(0) % dim).to(tl.int64)
    group, groups = channel // per_group, dim // per_group
    row = batch * dim + channel
    n = tl.arange(0, STATES).to(tl.int64)
    exists = n < state
    a = tl.load(A + channel * state + n, mask=exists, other=0.0)
    w = (
        tl.load(weight + channel * state + n, mask=exists, other=0.0)
        if HAS_WEIGHT
        else tl.full((STATES,), 1.0, tl.float32)
    )
    shift = tl.load(bias + channel) if HAS_BIAS else 0.0
    skip = tl.load(D + channel) if HAS_D else 0.0
    carry = tl.load(d_last + row * state + n, mask=exists, other=0.0)
    sum_a, sum_w = tl.zeros((STATES,), tl.float32), tl.zeros((STATES,), tl.float32)
    sum_skip, sum_bias = 0.0, 0.0
    for reverse in range(tiles):
        tile = tiles - 1 - reverse
        r = tl.arange(0, STEPS)
        t = tile * STEPS + r.to(tl.int64)
        inside = t < length
        both = inside[:, None] & exists[None, :]
        start = tl.load(starts + (row * tiles + tile) * state + n, mask=exists, other=0.0)

        # Row r of the first scan holds step t - 1, so that its result is the state before each step.
        earlier = inside & (r > 0)
        earlier_both = earlier[:, None] & exists[None, :]
        x_pointer, delta_pointer = u + batch * u_b + channel * u_d, delta + batch * d_b + channel * d_d
        b_pointer = B + batch * b_b + group * b_g + n[None, :] * b_n
        x = tl.load(x_pointer + (t - 1) * u_l, mask=earlier, other=0.0)
        step, _ = _step_sizes(delta_pointer, d_l, t - 1, earlier, shift, SOFTPLUS)
        b = tl.load(b_pointer + (t[:, None] - 1) * b_l, mask=earlier_both, other=0.0)
        decay = tl.exp(step[:, None] * a[None, :])
        held, _, _ = _hold(step[:, None], a[None, :], decay, ZOH)
        faded, local = tl.associative_scan((decay, held * b * x[:, None]), 0, _compose)
        before = local + faded * start[None, :]

        x = tl.load(x_pointer + t * u_l, mask=inside, other=0.0)
        step, slope = _step_sizes(delta_pointer, d_l, t, inside, shift, SOFTPLUS)
        b = tl.load(b_pointer + t[:, None] * b_l, mask=both, other=0.0)
        c = tl.load(C + batch * c_b + group * c_g + n[None, :] * c_n + t[:, None] * c_l, mask=both, other=0.0)
        decay = tl.exp(step[:, None] * a[None, :])
        held, held_by_delta, held_by_a = _hold(step[:, None], a[None, :], decay, ZOH)
        after = decay * before + held * b * x[:, None]

        grad = tl.load(dy + batch * y_b + channel * y_d + t * y_l, mask=inside, other=0.0)
        if HAS_Z:
            gate = tl.load(z + batch * z_b + channel * z_d + t * z_l, mask=inside, other=0.0)
            s = 1.0 / (1.0 + tl.exp(-gate))
            out = tl.sum(after * c * w[None, :], axis=1) + skip * x
            tl.store(dz + row * length + t, grad * out * s * (1.0 + gate * (1.0 - s)), mask=inside)
            grad = grad * gate * s

        after_next, _ = _step_sizes(delta_pointer, d_l, t + 1, t + 1 < length, shift, SOFTPLUS)
        next_decay = tl.exp(after_next[:, None] * a[None, :])
        faded, local = tl.associative_scan((next_decay, grad[:, None] * c * w[None, :]), 0, _compose, reverse=True)
        g = local + faded * carry[None, :]
        carry = _row(g, 0)

        d_held = g * b * x[:, None]
        flow = g * decay * before
        d_step = tl.sum(flow * a[None, :] + d_held * held_by_delta, axis=1) * slope
        sum_a += tl.sum(flow * step[:, None] + d_held * held_by_a, axis=0)
        sum_w += tl.sum(grad[:, None] * c * after, axis=0)
        sum_skip += tl.sum(grad * x, axis=0)
        sum_bias += tl.sum(tl.where(inside, d_step, 0.0), axis=0)
        tl.store(du + row * length + t, tl.sum(g * held * b, axis=1) + skip * grad, mask=inside)
        tl.store(d_delta + row * length + t, d_step, mask=inside)
        place = ((batch * groups + group) * length + t[:, None]) * state + n[None, :]
        tl.atomic_add(dB + place, g * held * x[:, None], mask=both)
        tl.atomic_add(dC + place, grad[:, None] * after * w[None, :], mask=both)
    tl.store(dA + row * state + n, sum_a, mask=exists)
    tl.store(d_weight + row * state + n, sum_w, mask=exists)
    tl.store(dD + row, sum_skip)
    tl.store(d_bias + row, sum_bias)


def _forward(inputs: Inputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor, Tensor]:
    u, _, A, B, *_ = inputs
    y, last_state, starts = torch.empty_like(u), A.new_empty(u.shape[0], *A.shape), u.new_empty(_kept(u, B))
    tensors, sizes, options = _call(inputs, y, softplus, zoh)
    _forward_kernel[(u.shape[0] * u.shape[1],)](*tensors, y, last_state, starts, *sizes, **options)
    return y, last_state, starts


def _backward(
    dy: Tensor, d_last: Tensor | None, starts: Tensor, inputs: Inputs, softplus: bool, zoh: bool
) -> list[Tensor]:
    u, _, A, B, *_ = inputs
    (batch, dim, length), (_, groups, state, _) = u.shape, B.shape
    d_last = A.new_zeros(batch, dim, state) if d_last is None else d_last.contiguous()
    du, d_delta, dz = (u.new_empty(batch, dim, length) for _ in range(3))
    dB, dC = (u.new_zeros(batch, groups, length, state) for _ in range(2))
    dA, d_weight = (u.new_empty(batch, dim, state) for _ in range(2))
    dD, d_bias = (u.new_empty(batch, dim) for _ in range(2))
    tensors, sizes, options = _call(inputs, dy, softplus, zoh)
    found = (du, d_delta, dA, dB, dC, d_weight, dD, dz, d_bias)
    _backward_kernel[(batch * dim,)](*tensors, dy, d_last, starts, *found, *sizes, **options)

    sums = (
        du,
        d_delta,
        dA.sum(0),
        dB.transpose(2, 3),
        dC.transpose(2, 3),
        d_weight.sum(0),
        dD.sum(0),
        dz,
        d_bias.sum(0),
    )
    gradients = empty_gradients(inputs)
    for gradient, value in zip(gradients, sums, strict=True):
        if gradient.numel():
            gradient.copy_(value)
    return gradients


def _kept(u: Tensor, B: Tensor) -> tuple[int, ...]:
    """Return the shape of the stored states before each tile."""
    batch, dim, length = u.shape
    return batch, dim, -(-length // _STEPS), B.shape[2]


def _call(inputs: Inputs, y: Tensor, softplus: bool, zoh: bool) -> tuple[list[Tensor], Sequence[int], dict[str, int]]:
    """Return the arguments that both kernels share: tensors (u in place of None), sizes and strides, and options."""
    u, delta, A, B, C, weight, D, z, bias = inputs
    state = A.shape[1]
    strides = [stride for t in (u, delta, u if z is None else z, y, B, C) for stride in t.stride()]
    sizes = (u.shape[1], u.shape[2], state, u.shape[1] // B.shape[1], -(-u.shape[2] // _STEPS), *strides)
    present = {"HAS_WEIGHT": weight, "HAS_D": D, "HAS_Z": z, "HAS_BIAS": bias}
    options = {name: tensor is not None for name, tensor in present.items()}
    options |= {"SOFTPLUS": softplus, "ZOH": zoh}
    weight, D, bias = (u if t is None else t.contiguous() for t in (weight, D, bias))
    tensors = [u, delta, A.contiguous(), B, C, weight, D, u if z is None else z, bias]
    return tensors, sizes, {**options, "STEPS": _STEPS, "STATES": triton.next_power_of_2(state)}


scan_triton = define("selective_scan_triton", _forward, _backward, _kept)
