"""Keeping the delicate parts in single precision when the rest runs in half."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_float32(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Run a function outside autocast with half-precision tensors widened to float32."""

    def widen(value: Any) -> Any:
        return value.float() if isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16) else value

    @wraps(function)
    def widened(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        device = next(value.device.type for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
        autocast = torch.autocast(device, enabled=False) if device != "meta" else nullcontext()
        with autocast:
            return function(*map(widen, args), **{key: widen(value) for key, value in kwargs.items()})

    return widened
