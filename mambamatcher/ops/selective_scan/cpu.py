"""The scan on the CPU, compiled by Numba, as a torch operator with a backward pass."""

from functools import reduce
from itertools import pairwise, product
from math import ceil

import numpy as np
import torch
from torch import Tensor

from mambamatcher.kernels.lanes import LANES
from mambamatcher.kernels.selective_scan.backward import scan_backward
from mambamatcher.kernels.selective_scan.forward import scan_forward
from mambamatcher.kernels.selective_scan.tiles import STEPS
from mambamatcher.kernels.threads import run
from mambamatcher.ops.native.memory import empty_as
from mambamatcher.ops.native.threads import thread_count
from mambamatcher.ops.selective_scan.operator import Inputs, define, empty_gradients

# Blocks per task of the backward pass: three fill whole cache lines. Every task of a group needs its own copy of the
# gradients of B and C, so there are at most 16.
_SPAN_BLOCKS, _MOST_SPANS = 3, 16


def _forward(inputs: Inputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor, Tensor]:
    u, A, B = inputs[0].to("meta"), inputs[2], inputs[3]
    y, starts = empty_as(torch.empty_like(u)), empty_as(u.new_empty(_kept(u, B)))
    last_state = A.new_empty(u.shape[0], *A.shape)
    call = (_arrays(inputs), _options(inputs, softplus, zoh), _views(y, last_state, starts))
    parts = ceil(thread_count() / u.shape[0])
    cuts = [starts.shape[1] * part // parts for part in range(parts + 1)]
    run(
        scan_forward,
        [(*call, batch, *blocks) for batch, blocks in product(range(u.shape[0]), pairwise(cuts))],
        thread_count(),
    )
    return y, last_state, starts


def _backward(
    dy: Tensor, d_last: Tensor | None, starts: Tensor, inputs: Inputs, softplus: bool, zoh: bool
) -> list[Tensor]:
    A, B = inputs[2], inputs[3]
    batch, groups, state, length = B.shape
    gradients = [empty_as(t) for t in empty_gradients([t if t is None else t.to("meta") for t in inputs])]
    du, d_delta, dA, dB, dC, d_weight, dD, dz, d_bias = gradients
    d_last = A.new_zeros(1).expand(batch, *A.shape) if d_last is None else d_last
    per_mode, per_channel = A.new_empty(2, batch, *A.shape), A.new_empty(2, batch, A.shape[0])
    given = _views(dy, d_last, starts)
    wanted = _views(du, d_delta, dz if dz.numel() else dz.new_empty(1, 1, 1), *per_mode, *per_channel)
    call = (_arrays(inputs), _options(inputs, softplus, zoh), given, wanted)

    # The first span of a group writes its part of dB and dC in place, the others to copies that are added afterwards.
    blocks = starts.shape[1] // groups
    spans = _spans(blocks)
    shares = [(dB.transpose(2, 3), dC.transpose(2, 3))]
    for _ in spans[1:]:
        template = torch.empty(batch, groups, length, state, device="meta")
        shares.append((empty_as(template), empty_as(template)))
    tasks = [
        (*call, _views(*(share[b, group] for share in shares[span])), b, group * blocks + first, group * blocks + last)
        for b, group, (span, (first, last)) in product(range(batch), range(groups), enumerate(spans))
    ]
    run(scan_backward, tasks, thread_count())
    for first_share, *others in zip(*shares, strict=True):
        reduce(Tensor.add_, others, first_share)
    for gradient, partial in zip((dA, d_weight, dD, d_bias), (*per_mode, *per_channel), strict=True):
        if gradient.numel():
            # Added one by one, because the order of torch.sum may depend on the number of threads.
            gradient.copy_(reduce(Tensor.add_, partial.unbind()))
    return gradients


def _kept(u: Tensor, B: Tensor) -> tuple[int, ...]:
    """Return the shape of the stored states at the start of each tile: (batch, block, tile, state × channel)."""
    batch, dim, length = u.shape
    groups, state = B.shape[1:3]
    return batch, groups * -(-(dim // groups) // LANES), -(-length // STEPS), state * LANES


def _spans(blocks: int) -> list[tuple[int, int]]:
    """Split the blocks of a group; the result depends on their number only, never on the threads."""
    width = max(_SPAN_BLOCKS, ceil(blocks / _MOST_SPANS))
    return [(first, min(first + width, blocks)) for first in range(0, blocks, width)]


def _options(inputs: Inputs, softplus: bool, zoh: bool) -> tuple[bool, bool, bool, bool]:
    weight, z = inputs[5], inputs[7]
    return softplus, zoh, z is not None, weight is not None


def _arrays(inputs: Inputs) -> tuple[np.ndarray, ...]:
    """View the tensors as arrays. A missing D or delta_bias becomes zeros, a missing weight or z is never read."""
    u, delta, A, B, C, weight, D, z, delta_bias = inputs
    zeros = u.new_zeros(u.shape[1])
    weight = zeros[None] if weight is None else weight
    z = zeros[None, None] if z is None else z
    D, delta_bias = (zeros if vector is None else vector for vector in (D, delta_bias))
    return _views(u, delta, A, B, C, weight, D, z, delta_bias)


def _views(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    return tuple(tensor.detach().numpy() for tensor in tensors)


scan_cpu = define("selective_scan_cpu", _forward, _backward, _kept)
