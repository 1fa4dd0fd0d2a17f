"""Radix sort of float32 values, compiled by Numba."""

import numpy as np
from numba import boolean, float32, int64, types

from mambamatcher.kernels.build import inlined, kernel

_BITS, _PASSES = 11, 3  # three digits of eleven bits cover the 32 bits of a key
_BUCKETS = 1 << _BITS
_SIGN, _MAGNITUDE, _ALL = np.uint32(0x8000_0000), np.uint32(0x7FFF_FFFF), np.uint32(0xFFFF_FFFF)
_INFINITY = np.uint32(0x7F80_0000)


@inlined
def _key(bits: np.uint32, descending: bool) -> np.uint32:
    """Map the bits of a float to an integer that sorts the same; -0 equals 0, and all NaNs are equal and above inf."""
    magnitude = bits & _MAGNITUDE
    if magnitude == 0:
        bits = np.uint32(0)
    elif magnitude > _INFINITY:
        bits = _MAGNITUDE
    key = bits ^ _ALL if bits & _SIGN else bits ^ _SIGN
    return key ^ _ALL if descending else key


@kernel(types.void(float32[:], boolean, int64[:]))
def radix_argsort(scores: np.ndarray, descending: bool, order: np.ndarray) -> None:
    """Write the sorted positions of `scores` to `order`: one stable pass per digit, least significant digit first."""
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
