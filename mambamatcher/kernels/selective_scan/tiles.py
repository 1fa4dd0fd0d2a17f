"""Copy parts of strided tensors to small contiguous tiles and back.

A tile holds STEPS rows of eight channels and stays in the L1 cache. The kernels work on tiles only, so they support
tensors of any memory layout.
"""

import numpy as np

from mambamatcher.kernels.build import inlined
from mambamatcher.kernels.functions import ZERO
from mambamatcher.kernels.lanes import LANES, load, store

STEPS = 64

_FLOAT_BYTES = 4


@inlined
def blocks_per_group(channels: int) -> int:
    """Return the number of blocks of eight channels that cover one group."""
    return (channels + LANES - 1) // LANES


@inlined
def locate(block: int, dim: int, groups: int) -> tuple[int, int, int]:
    """Return the group, first channel and number of channels of a block. A block never spans two groups."""
    channels = dim // groups
    per_group = blocks_per_group(channels)
    group = block // per_group
    first = group * channels + (block % per_group) * LANES
    return group, first, min(LANES, (group + 1) * channels - first)


@inlined
def gather(source: np.ndarray, batch: int, channel: int, count: int, start: int, steps: int, tile: np.ndarray) -> None:
    """Copy `steps` steps of `count` channels of (batch, dim, length) to a tile; missing channels become zero."""
    if count == LANES and source.strides[1] == _FLOAT_BYTES:
        offset = (batch * source.strides[0] + start * source.strides[2]) // _FLOAT_BYTES + channel
        stride = source.strides[2] // _FLOAT_BYTES
        for t in range(steps):
            store(tile, t * LANES, load(source, offset + t * stride))
        return
    if count < LANES:
        tile[: steps * LANES] = ZERO
    for c in range(count):
        for t in range(steps):
            tile[t * LANES + c] = source[batch, channel + c, start + t]


@inlined
def scatter(tile: np.ndarray, batch: int, channel: int, count: int, start: int, steps: int, target: np.ndarray) -> None:
    """Copy a tile back to (batch, dim, length); the inverse of `gather`."""
    if count == LANES and target.strides[1] == _FLOAT_BYTES:
        offset = (batch * target.strides[0] + start * target.strides[2]) // _FLOAT_BYTES + channel
        stride = target.strides[2] // _FLOAT_BYTES
        for t in range(steps):
            store(target, offset + t * stride, load(tile, t * LANES))
        return
    for c in range(count):
        for t in range(steps):
            target[batch, channel + c, start + t] = tile[t * LANES + c]


@inlined
def gather_rows(source: np.ndarray, batch: int, group: int, start: int, steps: int, tile: np.ndarray) -> None:
    """Copy `steps` steps of one group of (batch, group, state, length) to rows of `state` floats."""
    state = source.shape[2]
    if source.strides[2] < source.strides[3]:
        for t in range(steps):
            for n in range(state):
                tile[t * state + n] = source[batch, group, n, start + t]
    else:
        for n in range(state):
            for t in range(steps):
                tile[t * state + n] = source[batch, group, n, start + t]


@inlined
def gather_matrix(source: np.ndarray, channel: int, count: int, factor: np.float32, target: np.ndarray) -> None:
    """Copy `count` rows of (dim, state), times a factor, to a tile of `state` rows of eight channels."""
    target[:] = ZERO
    for n in range(source.shape[1]):
        for c in range(count):
            target[n * LANES + c] = source[channel + c, n] * factor
