"""The scan in plain PyTorch, on any device, with bounded memory.

The sequence is split into chunks, which are processed one after the other, and each chunk into rows. All
rows of a chunk are scanned in parallel, each from a zero state. Then the decayed final state of the rows before is
added. Only products of decays are computed, never quotients of cumulative products, so nothing overflows.
"""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from mambamatcher.ops.native.availability import in_forward_mode
from mambamatcher.ops.selective_scan.arguments import ScanInputs, same_groups
from mambamatcher.ops.selective_scan.reference import discretise, finish, step_sizes

_ROW, _ROWS = 32, 64


def scan_chunked(inputs: ScanInputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor]:
    """Return outputs and last state. The backward pass recomputes each chunk instead of storing it."""
    delta = step_sizes(inputs, softplus)
    B, C = same_groups(inputs.B, inputs.C)
    state = inputs.A.new_zeros(inputs.u.shape[0], *inputs.A.shape)
    outputs = []
    for start in range(0, inputs.u.shape[-1], _ROW * _ROWS):
        chunk = slice(start, start + _ROW * _ROWS)
        B_chunk, C_chunk = (t if t.ndim == 2 else t[..., chunk] for t in (B, C))
        arguments = (inputs.u[..., chunk], delta[..., chunk], inputs.A, B_chunk, C_chunk, state, zoh)
        if torch.is_grad_enabled() and not in_forward_mode():  # checkpoints have no forward mode
            y, state = checkpoint(_scan_chunk, *arguments, use_reentrant=False)
        else:
            y, state = _scan_chunk(*arguments)
        outputs.append(y)
    return finish(torch.cat(outputs, dim=-1), inputs), state


def _scan_chunk(
    u: Float[Tensor, "batch dim length"],
    delta: Float[Tensor, "batch dim length"],
    A: Float[Tensor, "dim state"],
    B: Float[Tensor, "..."],
    C: Float[Tensor, "..."],
    state: Float[Tensor, "batch dim state"],
    zoh: bool,
) -> tuple[Float[Tensor, "batch dim length"], Float[Tensor, "batch dim state"]]:
    length = u.shape[-1]
    # The last row is padded with Δ = 0, which keeps the state and adds nothing.
    delta = _in_rows(delta)
    decays, drives = discretise(delta, A, zoh)
    drives = drives * _in_rows(u)[..., None]
    B_steps, C_steps = (_per_step(tensor, len(delta)) for tensor in (B, C))

    local, faded = torch.zeros_like(decays[0]), torch.ones_like(decays[0])
    states, fades = [], []
    for decay, drive, B_step in zip(decays, drives, B_steps, strict=True):
        local, faded = decay * local + _scale(drive, B_step), decay * faded
        states.append(local)
        fades.append(faded)
    entering = []
    for row_fade, row_state in zip(faded, local, strict=True):
        entering.append(state)
        state = row_fade * state + row_state
    before = torch.stack(entering)
    y = torch.stack(
        [_scale(h + f * before, C_step).sum(-1) for h, f, C_step in zip(states, fades, C_steps, strict=True)]
    )
    return rearrange(y, "step row b d -> b d (row step)")[..., :length], state


def _in_rows(tensor: Float[Tensor, "batch dim length"]) -> Float[Tensor, "step row batch dim"]:
    missing = -tensor.shape[-1] % _ROW
    return rearrange(F.pad(tensor, (0, missing)), "b d (row step) -> step row b d", step=_ROW)


def _per_step(projection: Float[Tensor, "..."], steps: int) -> list[Tensor]:
    """Split B or C into steps of shape (row, batch, group, state), or (dim, state) if constant."""
    if projection.ndim == 2:
        return [projection] * steps
    rows = _in_rows(projection.flatten(1, 2))
    return list(rows.unflatten(-1, projection.shape[1:3]))


def _scale(
    modes: Float[Tensor, "row batch dim state"], projection: Float[Tensor, "..."]
) -> Float[Tensor, "row batch dim state"]:
    """Multiply the modes of every channel with B or C, which is shared within a group."""
    if projection.ndim == 2:
        return modes * projection
    grouped = modes.unflatten(2, (projection.shape[2], -1))
    return (grouped * projection.unsqueeze(3)).flatten(2, 3)
