"""How an operation is executed: when a CPU inference kernel may replace it, and when it must run in float32."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from mambamatcher.ops.native.availability import kernels_are_available

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def may_use_cpu_kernels(tensor: Tensor) -> bool:
    """Return whether an inference-only CPU kernel may process this tensor.

    The kernels take float32 on the CPU. They compute no gradients and know neither autocast nor torch.compile.
    """
    return (
        tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and kernels_are_available()
    )


def in_float32(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function to run without autocast, with half-precision tensor arguments converted to float32.

    Example:
        >>> @in_float32
        ... def dtype_of(tensor: Tensor) -> torch.dtype:
        ...     return tensor.dtype
        >>> dtype_of(torch.zeros(2, dtype=torch.bfloat16))
        torch.float32
    """

    def widen(value: Any) -> Any:
        return value.float() if isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16) else value

    @wraps(function)
    def widened(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        device = next(value.device.type for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
        autocast = torch.autocast(device, enabled=False) if device != "meta" else nullcontext()
        with autocast:
            return function(*map(widen, args), **{key: widen(value) for key, value in kwargs.items()})

    return widened
