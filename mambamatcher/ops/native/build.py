"""Compile a kernel at its first use and keep the machine code on disk."""

import inspect
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numba

logger = logging.getLogger(__name__)

# Not "fast": NaN must stay NaN, and adding a large number to round must not be simplified away.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}

_SILENT_SECONDS = 1.0  # loading from disk is quicker than this, compiling is not


def inlined(function: Callable) -> Callable:
    """Make a function usable inside kernels; it becomes part of each of them."""
    return numba.njit(inspect.unwrap(function), **_OPTIONS)


class Kernel:
    """A function compiled for one signature, when it is first called.

    Arrays of every memory layout share that signature, so a transposed tensor never compiles anything anew. Numba
    decides by the kernel's own file whether its cache is stale: touch that file after a change in one it calls.
    """

    def __init__(self, signature: Any, function: Callable) -> None:
        # Tests wrap every function in a type checker, which Numba cannot read.
        self._function = inspect.unwrap(function)
        self._signature = signature
        self._lock = threading.Lock()
        self._compiled: Callable | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel, compiling it before if need be."""
        return (self._compiled or self._compile())(*arguments)

    def _compile(self) -> Callable:
        with self._lock:
            if self._compiled is None:
                message = "compiling the CPU kernel %r for this machine; it is kept on disk (a few seconds, once)"
                notice = threading.Timer(_SILENT_SECONDS, logger.warning, (message, self._function.__name__))
                notice.daemon = True
                notice.start()
                try:
                    self._compiled = self._jit()
                finally:
                    notice.cancel()
        return self._compiled

    def _jit(self) -> Callable:
        jit = partial(numba.njit, self._signature, **_OPTIONS)
        try:
            return jit(cache=True)(self._function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            logger.warning("no writable folder for compiled kernels, each process compiles its own: %s", error)
            return jit()(self._function)


def kernel(signature: Any) -> Callable[[Callable], Kernel]:
    """Mark a function as a kernel with the given Numba signature."""
    return partial(Kernel, signature)
