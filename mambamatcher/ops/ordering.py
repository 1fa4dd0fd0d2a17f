"""Stable orders of scores. Cosine maps hold many equal scores, so an unstable sort differs between machines."""

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import boolean, float32, int64, types
from torch import Tensor

from mambamatcher.ops.native.build import inlined, kernel
from mambamatcher.ops.native.threads import run

_BITS, _PASSES = 11, 3  # three digits of eleven bits cover 32
_BUCKETS = 1 << _BITS
_MOST = 2**32 - 1  # positions are kept in 32 bits while sorting
_SIGN, _MAGNITUDE, _ALL = np.uint32(0x8000_0000), np.uint32(0x7FFF_FFFF), np.uint32(0xFFFF_FFFF)
_INFINITY = np.uint32(0x7F80_0000)


def stable_argsort(scores: Float[Tensor, "*batch position"], descending: bool = True) -> Int[Tensor, "*batch position"]:
    """Return the positions in the order of their scores, equal ones as they came, as torch's stable sort does.

    NaN counts as the greatest score. On the CPU this is a radix sort, elsewhere torch's own.
    """
    scores = scores.detach()
    half = scores.dtype in (torch.float16, torch.bfloat16)
    if scores.device.type != "cpu" or not (half or scores.dtype == torch.float32) or scores.shape[-1] > _MOST:
        return scores.argsort(dim=-1, descending=descending, stable=True)
    rows = scores.float().reshape(-1, scores.shape[-1]) if scores.numel() else scores.new_empty(0, 1)
    order = torch.empty(rows.shape, dtype=torch.int64)
    run(_radix_argsort, [(row.numpy(), descending, out.numpy()) for row, out in zip(rows, order, strict=True)])
    return order.reshape(scores.shape)


def invert(order: Int[Tensor, "*batch position"]) -> Int[Tensor, "*batch position"]:
    """Return where each position went: `take(take(x, order), invert(order))` is x."""
    ranks = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, ranks)


@inlined
def _key(bits: np.uint32, descending: bool) -> np.uint32:
    """Map the bits of a float to an integer of the same order; -0 is 0, and every NaN is one number above infinity."""
    magnitude = bits & _MAGNITUDE
    if magnitude == 0:
        bits = np.uint32(0)
    elif magnitude > _INFINITY:
        bits = _MAGNITUDE
    key = bits ^ _ALL if bits & _SIGN else bits ^ _SIGN
    return key ^ _ALL if descending else key


@kernel(types.void(float32[:], boolean, int64[:]))
def _radix_argsort(scores: np.ndarray, descending: bool, order: np.ndarray) -> None:
    """Sort by the lowest digit first; each pass is stable, so the last one leaves the whole order."""
    count = scores.size
    keys, moved_keys = np.empty(count, np.uint32), np.empty(count, np.uint32)
    index, moved_index = np.empty(count, np.uint32), np.empty(count, np.uint32)
    ends = np.zeros((_PASSES, _BUCKETS), np.int64)
    raw = np.ascontiguousarray(scores).view(np.uint32)
    for i in range(count):
        key = _key(raw[i], descending)
        keys[i], index[i] = key, i
        for digit in range(_PASSES):
            ends[digit, (key >> np.uint32(digit * _BITS)) & np.uint32(_BUCKETS - 1)] += 1
    for digit in range(_PASSES):
        place = ends[digit]
        total = 0
        for bucket in range(_BUCKETS):
            place[bucket], total = total, total + place[bucket]
        for i in range(count):
            bucket = (keys[i] >> np.uint32(digit * _BITS)) & np.uint32(_BUCKETS - 1)
            moved_keys[place[bucket]], moved_index[place[bucket]] = keys[i], index[i]
            place[bucket] += 1
        keys, moved_keys = moved_keys, keys
        index, moved_index = moved_index, index
    for i in range(count):
        order[i] = index[i]
