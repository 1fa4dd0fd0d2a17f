"""The scan as its definition: one step after another. Slow, and what every other backend is measured against."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from mambamatcher.ops.selective_scan.arguments import ScanInputs

# exp(x) - 1 over x, below this from its series: the quotient cancels near zero and is undefined at zero.
_SERIES_BELOW = 1e-2


def scan_reference(inputs: ScanInputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor]:
    """Return outputs and last state, differentiable by autograd."""
    delta = step_sizes(inputs, softplus)
    B, C = (per_channel(tensor, inputs.u) for tensor in (inputs.B, inputs.C))
    state = inputs.A.new_zeros(inputs.u.shape[0], *inputs.A.shape)
    outputs = []
    for u_t, delta_t, B_t, C_t in zip(*(tensor.unbind(-1) for tensor in (inputs.u, delta, B, C)), strict=True):
        decay, drive = discretise(delta_t, inputs.A, zoh)
        state = decay * state + drive * B_t * u_t[..., None]
        outputs.append((state * C_t).sum(-1))
    return finish(torch.stack(outputs, dim=-1), inputs), state


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


def per_channel(projection: Tensor, u: Float[Tensor, "batch dim length"]) -> Float[Tensor, "batch dim state length"]:
    """Give every channel its own view of B or C."""
    batch, dim, length = u.shape
    if projection.ndim == 2:
        return projection[None, :, :, None].expand(batch, -1, -1, length)
    return projection.repeat_interleave(dim // projection.shape[1], dim=1)


def finish(y: Float[Tensor, "batch dim length"], inputs: ScanInputs) -> Float[Tensor, "batch dim length"]:
    """Add D·u and gate with z."""
    if inputs.D is not None:
        y = y + inputs.u * inputs.D[:, None]
    return y if inputs.z is None else y * F.silu(inputs.z)
