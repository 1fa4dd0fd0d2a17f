"""Fused refinement of a correlation map for inference on the CPU (Sec. 4.2).

All steps from the tokens of a sequence to one score per token are computed chunk by chunk: projection, causal
convolution, SiLU, Δ/B/C, scan, gate, output projection, residual and final projection. No tensor of size tokens × inner
is ever stored. The output projection and the final projection are both linear and are merged into one vector.
"""

from collections.abc import Mapping
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from mambamatcher.errors import InputError
from mambamatcher.ops.native.lanes import LANES
from mambamatcher.ops.native.memory import empty_as
from mambamatcher.ops.native.threads import run, thread_count
from mambamatcher.ops.refinement.kernels import ROWS, combine, project, scan
from mambamatcher.ops.selective_scan.cpu.tiles import STEPS

CHUNK = 4096  # positions per chunk; their intermediate results fit in the cache


class BlockWeights(NamedTuple):
    """The parameters of one Mamba block."""

    in_proj: Float[Tensor, "two_inner level"]
    conv_weight: Float[Tensor, "inner 1 tap"]
    conv_bias: Float[Tensor, " inner"]
    x_proj: Float[Tensor, "outputs inner"]
    dt_weight: Float[Tensor, "inner rank"]
    dt_bias: Float[Tensor, " inner"]
    A_log: Float[Tensor, "inner state"]
    D: Float[Tensor, " inner"]
    out_proj: Float[Tensor, "level inner"]

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> "BlockWeights":
        """Read the parameters from the `state_dict()` of a block."""
        convolution, delta = ("conv1d.weight", "conv1d.bias"), ("dt_proj.weight", "dt_proj.bias")
        names = ("in_proj.weight", *convolution, "x_proj.weight", *delta, "A_log", "D", "out_proj.weight")
        return cls(*(state[name].detach().float() for name in names))


class Head(NamedTuple):
    """The layers around the block: optional LayerNorm before it, residual connection, projection to one score.

    Attributes:
        weight: Weight of the projection.
        bias: Bias of the projection.
        norm_weight: Weight of the LayerNorm, or None without one.
        norm_bias: Bias of the LayerNorm.
        residual: Whether the tokens are added to the output of the block.
    """

    weight: Float[Tensor, "1 level"]
    bias: Float[Tensor, " 1"]
    norm_weight: Float[Tensor, " level"] | None = None
    norm_bias: Float[Tensor, " level"] | None = None
    residual: bool = True


def refine(
    sequence: Float[Tensor, "batch position level"],
    order: Int[Tensor, "batch position"],
    block: BlockWeights,
    head: Head,
    discretization: str = "euler",
) -> Float[Tensor, "batch position"]:
    """Scan tokens in a given order and return one score per token, without gradients.

    Args:
        sequence: Tokens on the CPU: the scores of all levels at each position of the correlation map.
        order: Permutation of the positions, in which they are scanned.
        block: Parameters of the Mamba block.
        head: Layers around the block.
        discretization: "euler" or "zoh", as in `selective_scan`.

    Returns:
        Refined scores at the original positions.

    Raises:
        InputError: The tokens are not on the CPU, or shapes or types do not match.
    """
    _check(sequence, order, block)
    batch, positions, _ = sequence.shape
    sequence = sequence.detach().float()
    # The kernel loads whole tokens, so the levels of a token must be contiguous.
    tokens, orders = (sequence if sequence.stride(2) == 1 else sequence.contiguous()).numpy(), order.numpy()
    scores = empty_as(torch.empty(batch, positions, device="meta"))
    project_weights, scan_weights, normed = _pack(block, head)
    inner, state = scan_weights[0].shape[1], block.A_log.shape[1]
    buffers = [_buffers(inner, project_weights[3].shape[1], min(CHUNK, positions)) for _ in range(batch)]
    states = np.zeros((batch, inner // LANES, state * LANES), np.float32)
    parts = -(-thread_count() // batch)
    zoh = discretization == "zoh"
    outputs = scores.numpy()
    for start in range(0, positions, CHUNK):
        count = min(CHUNK, positions - start)
        rows, blocks = _cuts(count, parts, STEPS), _cuts(inner // LANES, parts, 1)
        run(
            project,
            [
                (tokens[b], orders[b], project_weights, normed, buffers[b], start, *part)
                for b, part in product(range(batch), rows)
            ],
        )
        run(
            scan,
            [(scan_weights, zoh, buffers[b], states[b], count, *part) for b, part in product(range(batch), blocks)],
        )
        run(combine, [(orders[b], buffers[b], outputs[b], start, count) for b in range(batch)])
    return scores


def _check(sequence: Tensor, order: Tensor, block: BlockWeights) -> None:
    """Raise an error for inputs that would make the kernels read out of bounds: they check nothing."""
    if sequence.device.type != "cpu" or 0 in sequence.shape:
        raise InputError(f"expected at least one token on the CPU, got {tuple(sequence.shape)} on {sequence.device}")
    if block.in_proj.shape[1] != sequence.shape[2]:
        raise InputError(f"the block takes {block.in_proj.shape[1]} levels, the tokens have {sequence.shape[2]}")
    least, most = order.aminmax()
    if order.shape != sequence.shape[:2] or order.dtype != torch.int64 or least < 0 or most >= sequence.shape[1]:
        raise InputError(
            f"order must hold int64 positions, {tuple(sequence.shape[:2])}, got {order.dtype}, {tuple(order.shape)}, "
            f"from {least.item()} to {most.item()}"
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
    state = block.A_log.shape[1]
    rank = block.dt_weight.shape[1]
    x, z = block.in_proj.chunk(2)
    dt, B, C = block.x_proj.split([rank, state, state])
    own = head.weight[0] if head.residual else torch.zeros_like(head.weight[0])
    norm = torch.zeros(2, own.numel())
    if head.norm_weight is not None:
        norm[0] = head.norm_weight
        norm[1] = 0 if head.norm_bias is None else head.norm_bias
    project_weights = (
        torch.cat([_padded(x.T), _padded(z.T)], dim=1),
        _padded(block.conv_weight[:, 0].T),
        _padded(block.conv_bias),
        _padded(_padded(torch.cat([B, C, dt])).T),
        norm,
        torch.cat([own, head.bias]),
    )
    rates = -block.A_log.float().exp() / np.log(2)
    scan_weights = (
        _padded(block.dt_weight.T),
        _padded(block.dt_bias),
        _padded(rates.T).unflatten(1, (-1, LANES)).transpose(0, 1).flatten(1),
        _padded(block.D),
        _padded(head.weight[0] @ block.out_proj),
    )
    packed = [tuple(t.detach().contiguous().numpy() for t in group) for group in (project_weights, scan_weights)]
    return packed[0], packed[1], head.norm_weight is not None


def _padded(tensor: Tensor) -> Tensor:
    return F.pad(tensor, (0, -tensor.shape[-1] % LANES))
