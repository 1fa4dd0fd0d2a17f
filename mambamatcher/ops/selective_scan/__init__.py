"""The selective scan of Mamba, drop-in for mamba_ssm's `selective_scan_fn` and fast on a CPU."""

from torch import Tensor

from mambamatcher.ops.selective_scan.arguments import check
from mambamatcher.ops.selective_scan.backends import BACKENDS, choose
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
    """Scan `u` with a state-space model whose step size, input and output depend on the position (Sec. 3).

    Arguments, layouts and results are those of mamba_ssm: `u`, `delta` and `z` are (batch, dim, length), `A` is
    (dim, state), `D` and `delta_bias` are (dim,), and `B` and `C` are (dim, state), (batch, state, length) or
    (batch, groups, state, length). With `return_last_state`, (batch, dim, state) comes second. All inputs are
    differentiated, also through the last state.

    Half precision is computed in float32 and the output has the type of `u`. `discretization` "euler" feeds the state
    with Δ·B, as mamba_ssm does; "zoh" with the zero-order hold (exp(ΔA) - 1)/A·B that the papers print. `backend`
    "auto" takes the fastest that works here; a named one that does not raises a BackendError.
    """
    if discretization not in DISCRETIZATIONS:
        raise unknown("discretization", discretization, DISCRETIZATIONS)
    inputs = check(u, delta, A, B, C, D, z, delta_bias)
    run = BACKENDS[choose(backend, u.device.type, str(inputs.u.dtype), discretization)]
    y, last_state = run(inputs, delta_softplus, discretization == "zoh")
    return (y.to(u.dtype), last_state) if return_last_state else y.to(u.dtype)
