"""Argument checks of the scan, shared by all backends. Errors name the argument."""

from dataclasses import dataclass
from math import gcd

import torch
from torch import Tensor

from mambamatcher.errors import InputError


@dataclass(frozen=True, slots=True)
class ScanInputs:
    """The tensors of one scan, all float32 or all float64."""

    u: Tensor  # (batch, dim, length)
    delta: Tensor  # (batch, dim, length)
    A: Tensor  # (dim, state)
    B: Tensor  # (dim, state), or (batch, group, state, length)
    C: Tensor  # (dim, state), or (batch, group, state, length)
    D: Tensor | None  # (dim,)
    z: Tensor | None  # (batch, dim, length)
    delta_bias: Tensor | None  # (dim,)


def check(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
) -> ScanInputs:
    """Check types and shapes, and convert all tensors to float32 or, if u is float64, to float64."""
    given = {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "z": z, "delta_bias": delta_bias}
    tensors = {name: value for name, value in given.items() if value is not None}
    for name, tensor in tensors.items():
        _check_kind(name, tensor, u.device)
    if u.ndim != 3:
        raise InputError(f"u must be (batch, dim, length), got {_shape(u)}")
    if 0 in u.shape:
        raise InputError(f"u is empty, {_shape(u)}; batch, dim and length must be at least 1")
    batch, dim, length = u.shape
    if A.ndim != 2 or A.shape[0] != dim or A.shape[1] == 0:
        raise InputError(f"A must be (dim, state) with dim {dim}, as in u, got {_shape(A)}")
    expected = {"delta": (batch, dim, length), "z": (batch, dim, length), "D": (dim,), "delta_bias": (dim,)}
    for name, shape in expected.items():
        if name in tensors and tensors[name].shape != shape:
            raise InputError(f"{name} must be {shape} to match u {_shape(u)}, got {_shape(tensors[name])}")
    for name in ("B", "C"):
        _check_projection(name, tensors[name], u, A.shape[1])

    dtype = torch.float64 if u.dtype == torch.float64 else torch.float32
    same = {name: value if value is None else value.to(dtype) for name, value in given.items()}
    for name in ("B", "C"):
        if tensors[name].ndim == 3:
            same[name] = same[name].unsqueeze(1)  # type: ignore[union-attr]
    return ScanInputs(**same)  # type: ignore[arg-type]


def _check_kind(name: str, tensor: Tensor, device: torch.device) -> None:
    if tensor.is_complex():
        raise InputError(f"{name} is complex, which is not supported; use real tensors")
    if not tensor.is_floating_point():
        raise InputError(f"{name} must hold floating-point numbers, got {tensor.dtype}")
    if tensor.device != device:
        raise InputError(f"{name} is on {tensor.device} but u is on {device}; move them to one device")


def _check_projection(name: str, tensor: Tensor, u: Tensor, state: int) -> None:
    batch, dim, length = u.shape
    if tensor.ndim == 4 and tensor.shape[1] > 0 and dim % tensor.shape[1] == 0:
        fits = tensor.shape == (batch, tensor.shape[1], state, length)
    else:
        fits = tensor.shape in ((dim, state), (batch, state, length))
    if not fits:
        raise InputError(
            f"{name} must be (dim, state), (batch, state, length) or (batch, groups, state, length) with "
            f"batch {batch}, dim {dim} a multiple of groups, state {state} and length {length}, got {_shape(tensor)}"
        )


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def same_groups(B: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat the groups of B and C until both have the same number; constant B or C are left unchanged."""
    if B.ndim == 2 or C.ndim == 2 or B.shape[1] == C.shape[1]:
        return B, C
    groups = B.shape[1] * C.shape[1] // gcd(B.shape[1], C.shape[1])
    B, C = (tensor.repeat_interleave(groups // tensor.shape[1], dim=1) for tensor in (B, C))
    return B, C
