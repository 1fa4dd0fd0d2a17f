"""The scan as its definition: one step after another. Slow, and what every other backend is measured against."""

from collections.abc import Iterator
from itertools import chain, repeat

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from mambamatcher.ops.selective_scan.arguments import ScanInputs

# exp(x) - 1 over x, below this from its series: the quotient cancels near zero and is undefined at zero.
_SERIES_BELOW = 1e-2
_PIECE = 4096  # steps whose views exist at the same time


def scan_reference(inputs: ScanInputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor]:
    """Return outputs and last state, differentiable by autograd."""
    channels = inputs.u.shape[1]
    sequences = (inputs.u, step_sizes(inputs, softplus), inputs.B, inputs.C)
    state = inputs.A.new_zeros(inputs.u.shape[0], *inputs.A.shape)
    outputs = []
    for u, delta, B, C in zip(*map(_steps, sequences), strict=False):  # constant B and C have no end
        decay, drive = discretise(delta, inputs.A, zoh)
        state = decay * state + drive * _per_channel(B, channels) * u[..., None]
        outputs.append((state * _per_channel(C, channels)).sum(-1))
    return finish(torch.stack(outputs, dim=-1), inputs), state


def _steps(tensor: Tensor) -> Iterator[Tensor]:
    """Yield step by step: by unbinding, not by indexing, whose gradient would fill a whole sequence at every step."""
    if tensor.ndim == 2:
        return repeat(tensor)
    return chain.from_iterable(piece.unbind(-1) for piece in tensor.split(_PIECE, dim=-1))


def _per_channel(projection: Tensor, channels: int) -> Tensor:
    """Give every channel its own B or C of one step."""
    return projection if projection.ndim == 2 else projection.repeat_interleave(channels // projection.shape[1], dim=1)


def step_sizes(inputs: ScanInputs, softplus: bool) -> Float[Tensor, "batch dim length"]:
    """Return Δ: biased, then made positive where asked."""
    delta = inputs.delta if inputs.delta_bias is None else inputs.delta + inputs.delta_bias[:, None]
    return F.softplus(delta) if softplus else delta


def discretise(
    delta: Float[Tensor, "*steps dim"], A: Float[Tensor, "dim state"], zoh: bool
) -> tuple[Float[Tensor, "*steps dim state"], Float[Tensor, "*steps dim state"]]:
    """Return how much of the state stays and how much of B·u enters: exp(ΔA), and Δ or (exp(ΔA) - 1) / A."""
    exponent = delta[..., None] * A
    decay = exponent.exp()
    if not zoh:
        return decay, delta[..., None].expand_as(decay)
    small = exponent.abs() < _SERIES_BELOW
    series = 1 + exponent / 2 * (1 + exponent / 3 * (1 + exponent / 4))
    safe = torch.where(small, torch.ones_like(exponent), exponent)
    return decay, delta[..., None] * torch.where(small, series, safe.expm1() / safe)


def finish(y: Float[Tensor, "batch dim length"], inputs: ScanInputs) -> Float[Tensor, "batch dim length"]:
    """Add D·u and gate with z."""
    if inputs.D is not None:
        y = y + inputs.u * inputs.D[:, None]
    return y if inputs.z is None else y * F.silu(inputs.z)
