"""Fused refinement of a correlation map for inference on the CPU (Sec. 4.2).

All steps from the tokens of a sequence to one score per token are computed chunk by chunk: projection, causal
convolution, SiLU, Δ/B/C, scan, gate, output projection, residual and final projection. No array of size tokens × inner
is ever stored. The output projection and the final projection are both linear and are merged into one vector.
"""

from collections.abc import Mapping
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int

from mambamatcher.errors import InputError
from mambamatcher.kernels.lanes import LANES
from mambamatcher.kernels.memory import empty
from mambamatcher.kernels.refinement.steps import ROWS, combine, project, scan
from mambamatcher.kernels.selective_scan.tiles import STEPS
from mambamatcher.kernels.threads import run

CHUNK = 4096  # positions per chunk; their intermediate results fit in the cache


class BlockWeights(NamedTuple):
    """The parameters of one Mamba block."""

    in_proj: Float32[np.ndarray, "two_inner level"]
    conv_weight: Float32[np.ndarray, "inner 1 tap"]
    conv_bias: Float32[np.ndarray, " inner"]
    x_proj: Float32[np.ndarray, "outputs inner"]
    dt_weight: Float32[np.ndarray, "inner rank"]
    dt_bias: Float32[np.ndarray, " inner"]
    A_log: Float32[np.ndarray, "inner state"]
    D: Float32[np.ndarray, " inner"]
    out_proj: Float32[np.ndarray, "level inner"]

    @classmethod
    def from_state(cls, state: Mapping[str, Float32[np.ndarray, "..."]]) -> "BlockWeights":
        """Read the parameters from the state of a block, by their names there."""
        convolution, delta = ("conv1d.weight", "conv1d.bias"), ("dt_proj.weight", "dt_proj.bias")
        names = ("in_proj.weight", *convolution, "x_proj.weight", *delta, "A_log", "D", "out_proj.weight")
        return cls(*(state[name] for name in names))

    def fits(self, levels: int) -> bool:
        """Return whether all shapes belong to one block that takes this many levels."""
        if any(each.ndim == 0 or 0 in each.shape for each in self) or self.A_log.ndim != 2:
            return False
        inner, state = self.A_log.shape
        rank, taps = self.dt_weight.shape[-1], self.conv_weight.shape[-1]
        shapes = [(2 * inner, levels), (inner, 1, taps), (inner,), (rank + 2 * state, inner), (inner, rank), (inner,)]
        return [each.shape for each in self] == [*shapes, (inner, state), (inner,), (levels, inner)]


class Head(NamedTuple):
    """The layers around the block: optional LayerNorm before it, residual connection, projection to one score.

    Attributes:
        weight: Weight of the projection.
        bias: Bias of the projection.
        norm_weight: Weight of the LayerNorm, or None without one.
        norm_bias: Bias of the LayerNorm.
        residual: Whether the tokens are added to the output of the block.
    """

    weight: Float32[np.ndarray, "1 level"]
    bias: Float32[np.ndarray, " 1"]
    norm_weight: Float32[np.ndarray, " level"] | None = None
    norm_bias: Float32[np.ndarray, " level"] | None = None
    residual: bool = True


def refine(
    tokens: Float32[np.ndarray, "batch position level"],
    order: Int[np.ndarray, "batch position"],
    block: BlockWeights,
    head: Head,
    discretization: str,
    threads: int,
) -> Float32[np.ndarray, "batch position"]:
    """Scan tokens in a given order and return one score per token.

    Args:
        tokens: The scores of all levels at each position of the correlation map.
        order: Permutation of the positions, in which they are scanned.
        block: Parameters of the Mamba block.
        head: Layers around the block.
        discretization: "euler" or "zoh", as in `ops.selective_scan`.
        threads: Threads to use; scores do not depend on their number.

    Returns:
        Refined scores at the original positions.

    Raises:
        InputError: Shapes or types do not match.
    """
    _check(tokens, order, block)
    batch, positions, _ = tokens.shape
    if tokens.strides[2] != tokens.itemsize:  # the kernel loads whole tokens
        tokens = np.ascontiguousarray(tokens)
    scores = empty(batch * positions).reshape(batch, positions)
    project_weights, scan_weights, normed = _pack(block, head)
    inner, state = scan_weights[0].shape[1], block.A_log.shape[1]
    buffers = [_buffers(inner, project_weights[3].shape[1], min(CHUNK, positions)) for _ in range(batch)]
    states = np.zeros((batch, inner // LANES, state * LANES), np.float32)
    parts = -(-threads // batch)
    zoh = discretization == "zoh"
    for start in range(0, positions, CHUNK):
        count = min(CHUNK, positions - start)
        rows, blocks = _cuts(count, parts, STEPS), _cuts(inner // LANES, parts, 1)
        projecting = [
            (tokens[b], order[b], project_weights, normed, buffers[b], start, *part)
            for b, part in product(range(batch), rows)
        ]
        scanning = [
            (scan_weights, zoh, buffers[b], states[b], count, *part) for b, part in product(range(batch), blocks)
        ]
        run(project, projecting, threads)
        run(scan, scanning, threads)
        run(combine, [(order[b], buffers[b], scores[b], start, count) for b in range(batch)], threads)
    return scores


def _check(tokens: np.ndarray, order: np.ndarray, block: BlockWeights) -> None:
    """Raise an error for inputs that would make the kernels read out of bounds: they check nothing."""
    if 0 in tokens.shape:
        raise InputError(f"expected at least one token, got {tokens.shape}")
    if block.in_proj.shape[1] != tokens.shape[2]:
        raise InputError(f"the block takes {block.in_proj.shape[1]} levels, the tokens have {tokens.shape[2]}")
    least, most = order.min(), order.max()
    if order.shape != tokens.shape[:2] or order.dtype != np.int64 or least < 0 or most >= tokens.shape[1]:
        raise InputError(
            f"order must hold int64 positions, {tokens.shape[:2]}, got {order.dtype}, {order.shape}, "
            f"from {least} to {most}"
        )


def _cuts(count: int, parts: int, unit: int) -> list[tuple[int, int]]:
    """Split a range into about equal parts whose bounds are multiples of `unit`."""
    units = -(-count // unit)
    bounds = [min(units * part // parts * unit, count) for part in range(parts + 1)]
    return [(first, last) for first, last in pairwise(bounds) if first < last]


def _buffers(inner: int, outputs: int, rows: int) -> tuple[np.ndarray, ...]:
    """Allocate the intermediate results of a chunk; matrix products write up to ROWS - 1 rows past the end."""
    shapes = ((rows + ROWS, inner), (rows + ROWS, inner), (rows + ROWS, outputs), (inner // LANES + 1, rows))
    return tuple(np.zeros(shape, np.float32) for shape in shapes)


def _pack(block: BlockWeights, head: Head) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], bool]:
    """Arrange the weights for the kernels: transposed, and with channels padded to whole SIMD vectors."""
    inner, state = block.A_log.shape
    rank = block.dt_weight.shape[1]
    dt, B, C = np.split(block.x_proj, [rank, rank + state])
    own = head.weight[0] if head.residual else np.zeros_like(head.weight[0])
    norm = np.zeros((2, own.size), np.float32)
    if head.norm_weight is not None:
        norm[0] = head.norm_weight
        norm[1] = 0 if head.norm_bias is None else head.norm_bias
    project_weights = (
        np.concatenate([_padded(part.T) for part in (block.in_proj[:inner], block.in_proj[inner:])], axis=1),
        _padded(block.conv_weight[:, 0].T),
        _padded(block.conv_bias),
        _padded(_padded(np.concatenate([B, C, dt])).T),
        norm,
        np.concatenate([own, head.bias]),
    )
    rates = _padded(-np.exp(block.A_log).T / np.float32(np.log(2)))
    scan_weights = (
        _padded(block.dt_weight.T),
        _padded(block.dt_bias),
        # the states of one block of channels after another
        rates.reshape(state, -1, LANES).swapaxes(0, 1).reshape(-1, state * LANES),
        _padded(block.D),
        _padded(head.weight[0] @ block.out_proj),
    )
    packed = [tuple(map(np.ascontiguousarray, group)) for group in (project_weights, scan_weights)]
    return packed[0], packed[1], head.norm_weight is not None


def _padded(array: np.ndarray) -> np.ndarray:
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % LANES)])
