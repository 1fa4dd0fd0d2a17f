"""The scan as a plain loop over its definition. Slow, and the reference for all other backends."""

from collections.abc import Iterator
from itertools import chain, repeat

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from mambamatcher.ops.selective_scan.arguments import ScanInputs

# Below this, (exp(x) - 1) / x is computed from its series: the quotient loses precision near 0 and is undefined at 0.
_SERIES_BELOW = 1e-2
_PIECE = 4096  # limits the number of views that exist at the same time


def scan_reference(inputs: ScanInputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor]:
    """Return outputs and last state; autograd computes the gradients."""
    channels = inputs.u.shape[1]
    sequences = (inputs.u, step_sizes(inputs, softplus), inputs.B, inputs.C)
    state = inputs.A.new_zeros(inputs.u.shape[0], *inputs.A.shape)
    outputs = []
    for u, delta, B, C in zip(*map(_steps, sequences), strict=False):  # constant B and C repeat endlessly
        decay, drive = discretise(delta, inputs.A, zoh)
        state = decay * state + drive * _per_channel(B, channels) * u[..., None]
        outputs.append((state * _per_channel(C, channels)).sum(-1))
    return finish(torch.stack(outputs, dim=-1), inputs), state


def _steps(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the steps of a sequence by `unbind`: the gradient of indexing would fill the whole tensor at every step."""
    if tensor.ndim == 2:
        return repeat(tensor)
    return chain.from_iterable(piece.unbind(-1) for piece in tensor.split(_PIECE, dim=-1))


def _per_channel(projection: Tensor, channels: int) -> Tensor:
    """Repeat B or C of one step for the channels of each group."""
    return projection if projection.ndim == 2 else projection.repeat_interleave(channels // projection.shape[1], dim=1)


def step_sizes(inputs: ScanInputs, softplus: bool) -> Float[Tensor, "batch dim length"]:
    """Return Δ: add the bias, then apply the softplus if requested."""
    delta = inputs.delta if inputs.delta_bias is None else inputs.delta + inputs.delta_bias[:, None]
    return F.softplus(delta) if softplus else delta


def discretise(
    delta: Float[Tensor, "*steps dim"], A: Float[Tensor, "dim state"], zoh: bool
) -> tuple[Float[Tensor, "*steps dim state"], Float[Tensor, "*steps dim state"]]:
    """Return the discrete factors of the state, exp(ΔA), and of B·u: Δ (Euler) or (exp(ΔA) - 1) / A (ZOH)."""
    exponent = delta[..., None] * A
    decay = exponent.exp()
    if not zoh:
        return decay, delta[..., None].expand_as(decay)
    small = exponent.abs() < _SERIES_BELOW
    series = 1 + exponent / 2 * (1 + exponent / 3 * (1 + exponent / 4))
    safe = torch.where(small, torch.ones_like(exponent), exponent)
    return decay, delta[..., None] * torch.where(small, series, safe.expm1() / safe)


def finish(y: Float[Tensor, "batch dim length"], inputs: ScanInputs) -> Float[Tensor, "batch dim length"]:
    """Add D·u and apply the gate z."""
    if inputs.D is not None:
        y = y + inputs.u * inputs.D[:, None]
    return y if inputs.z is None else y * F.silu(inputs.z)
