"""How the renderer's inner loops are compiled."""

from collections.abc import Callable
from inspect import unwrap
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with Numba, free of the interpreter lock and kept on disk between runs.

    Without fast-math, so that the same seed gives the same bytes. The test suite wraps every function in a type check
    that Numba cannot compile; `unwrap` reaches the function itself.
    """
    return njit(nogil=True, cache=True, error_model="numpy")(unwrap(function))
