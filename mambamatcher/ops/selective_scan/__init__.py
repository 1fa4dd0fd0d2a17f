"""The selective scan of Mamba: a drop-in replacement for mamba_ssm's `selective_scan_fn` that is fast on a CPU."""

from torch import Tensor

from mambamatcher.ops.native.availability import in_forward_mode
from mambamatcher.ops.selective_scan.arguments import check
from mambamatcher.ops.selective_scan.backends import BACKENDS, choose, choose_for_forward_mode
from mambamatcher.registry import unknown

__all__ = ["BACKENDS", "DISCRETIZATIONS", "selective_scan"]

DISCRETIZATIONS = ("euler", "zoh")


def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    *,
    backend: str = "auto",
    discretization: str = "euler",
) -> Tensor | tuple[Tensor, Tensor]:
    """Run a state-space model with input-dependent parameters along a sequence (Sec. 3).

    Per channel, with Δ = softplus(delta + delta_bias):

        h[t] = exp(Δ[t] A) h[t-1] + Δ[t] B[t] u[t]
        y[t] = (C[t] · h[t] + D u[t]) silu(z[t])

    Positional arguments, layouts and results are those of mamba_ssm. All tensors have gradients, through the last
    state too; in forward mode (`torch.func.jvp`) "auto" is "chunked". Half-precision inputs are computed in float32.

    Args:
        u: Input sequence, (batch, dim, length).
        delta: Step sizes Δ before bias and softplus, (batch, dim, length).
        A: Decay rates, (dim, state).
        B: Input projection, (dim, state), (batch, state, length) or (batch, groups, state, length).
        C: Output projection, with the same choice of shapes.
        D: Skip connection, (dim,).
        z: Gate, (batch, dim, length).
        delta_bias: Bias of `delta`, (dim,).
        delta_softplus: Whether to apply the softplus to `delta`.
        return_last_state: Whether to return the state after the last step, too.
        backend: One of `BACKENDS`, or "auto" for the fastest one available.
        discretization: Factor of B: "euler" uses Δ, as mamba_ssm does; "zoh" uses the zero-order hold
            (exp(ΔA) - 1) / A, as the papers print.

    Returns:
        Output with the shape and type of `u`; with `return_last_state` also the last state, (batch, dim, state).

    Raises:
        InputError: A tensor has a wrong shape, type or device.
        ConfigError: The backend or the discretization is unknown.
        BackendError: The requested backend is not available or does not support these inputs.

    Example:
        >>> import torch
        >>> u = torch.tensor([[[1.0, 0.0, 0.0]]])  # an impulse, which decays by half per step
        >>> A = torch.tensor([[0.5]]).log()
        >>> selective_scan(u, torch.ones(1, 1, 3), A, torch.ones(1, 1), torch.ones(1, 1), backend="reference")
        tensor([[[1.0000, 0.5000, 0.2500]]])
    """
    if discretization not in DISCRETIZATIONS:
        raise unknown("discretization", discretization, DISCRETIZATIONS)
    inputs = check(u, delta, A, B, C, D, z, delta_bias)
    if in_forward_mode():
        backend = choose_for_forward_mode(backend)
    run = BACKENDS[choose(backend, u.device.type, str(inputs.u.dtype), discretization)]
    y, last_state = run(inputs, delta_softplus, discretization == "zoh")
    return (y.to(u.dtype), last_state) if return_last_state else y.to(u.dtype)
