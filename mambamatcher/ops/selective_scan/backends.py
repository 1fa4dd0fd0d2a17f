"""The backends of the scan, and the choice that `auto` makes."""

import logging
import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from mambamatcher.errors import BackendError
from mambamatcher.kernels.availability import compiler_is_disabled
from mambamatcher.ops.selective_scan.arguments import ScanInputs, same_groups
from mambamatcher.ops.selective_scan.chunked import scan_chunked
from mambamatcher.ops.selective_scan.reference import scan_reference
from mambamatcher.registry import unknown

logger = logging.getLogger(__name__)


def _cpu(inputs: ScanInputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor]:
    from mambamatcher.ops.selective_scan.cpu import scan_cpu

    return _with_kernels(scan_cpu, inputs, softplus, zoh)


def _triton(inputs: ScanInputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor]:
    from mambamatcher.ops.selective_scan.gpu import scan_triton

    return _with_kernels(scan_triton, inputs, softplus, zoh)


def _mamba_ssm(inputs: ScanInputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor]:
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

    i = inputs
    return selective_scan_fn(i.u, i.delta, i.A, i.B, i.C, i.D, i.z, i.delta_bias, softplus, return_last_state=True)


BACKENDS: dict[str, Callable[[ScanInputs, bool, bool], tuple[Tensor, Tensor]]] = {
    "reference": scan_reference,
    "chunked": scan_chunked,
    "cpu": _cpu,
    "triton": _triton,
    "mamba_ssm": _mamba_ssm,
}
_DIFFERENTIABLE = ("reference", "chunked")  # made of PyTorch's operations, and available everywhere


def _with_kernels(operator: Callable, inputs: ScanInputs, softplus: bool, zoh: bool) -> tuple[Tensor, Tensor]:
    """Split B and C for the kernels into parts that vary along the sequence and a constant weight per mode."""
    B, C = same_groups(inputs.B, inputs.C)
    weight = None
    if B.ndim == 2 or C.ndim == 2:
        weight = torch.ones_like(inputs.A)
        for constant in (B, C):
            weight = weight * constant if constant.ndim == 2 else weight
    ones = inputs.A.new_ones(1, 1, 1, 1)
    groups = next((t.shape[1] for t in (B, C) if t.ndim == 4), 1)
    shape = (inputs.u.shape[0], groups, inputs.A.shape[1], inputs.u.shape[2])
    B_steps, C_steps = (ones.expand(shape) if t.ndim == 2 else t for t in (B, C))
    y, state, _ = operator(
        inputs.u, inputs.delta, inputs.A, B_steps, C_steps, weight, inputs.D, inputs.z, inputs.delta_bias, softplus, zoh
    )
    return y, state * B if B.ndim == 2 else state


def choose(name: str, device: str, dtype: str, discretization: str) -> str:
    """Return the name of the backend to use; raise an error if the requested one cannot be used."""
    if name == "auto":
        return _automatic(device, dtype, discretization)
    if name not in BACKENDS:
        raise unknown("scan backend", name, ("auto", *BACKENDS))
    if obstacle := _obstacle(name, device, dtype, discretization):
        raise BackendError(f"scan backend {name!r} {obstacle}")
    return name


# The effect of `torch.compiler.assume_constant_result`, without importing the compiler, which takes 1.5 s.
choose._dynamo_marked_constant = True  # type: ignore[attr-defined]


def choose_for_forward_mode(name: str) -> str:
    """Return a backend that is made of differentiable operations; raise an error if another one was requested."""
    if name in ("auto", *_DIFFERENTIABLE) or name not in BACKENDS:
        return "chunked" if name == "auto" else name
    raise BackendError(f"scan backend {name!r} has no forward-mode derivative; use 'auto' or 'chunked'")


@cache
def _automatic(device: str, dtype: str, discretization: str) -> str:
    # On the meta device nothing is computed, but the CPU operator knows the shapes.
    fastest_first = ("cpu",) if device in ("cpu", "meta") else ("mamba_ssm", "triton")
    found = next((name for name in fastest_first if not _obstacle(name, device, dtype, discretization)), "chunked")
    logger.info("selective scan on %s (%s): backend %r", device, dtype, found)
    return found


def _obstacle(name: str, device: str, dtype: str, discretization: str) -> str | None:
    """Return why a backend cannot be used, or None if it can."""
    if name in _DIFFERENTIABLE:
        return None
    if dtype == "torch.float64":
        return "computes in float32 only; pass float32 tensors, or use 'chunked' for float64"
    if name == "cpu" and compiler_is_disabled():
        return "needs Numba's compiler; unset NUMBA_DISABLE_JIT, or use 'auto'"
    if name == "cpu":
        return None if device in ("cpu", "meta") else f"needs tensors on the CPU, got {device}; use 'auto'"
    if find_spec(name) is None:
        return f"is not installed; install {name.replace('_', '-')} or use 'auto'"
    interpreted = name == "triton" and os.environ.get("TRITON_INTERPRET") == "1"
    if device != "cuda" and not interpreted:
        return f"needs a GPU, got tensors on {device}; use 'auto'"
    if name == "mamba_ssm" and discretization != "euler":
        return f"supports the discretization 'euler' only, got {discretization!r}; use 'auto'"
    return None
