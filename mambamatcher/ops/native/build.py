"""Compile a kernel at its first use and keep the machine code on disk."""

import inspect
import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba

logger = logging.getLogger(__name__)

# Not "fastmath": NaN must stay NaN, adding a large number to round must not be simplified away, and a recompilation
# must not change results.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_UNEXPECTED_SECONDS = 5.0  # machine code that is on disk is loaded in less, unless it proves stale


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
                dispatcher = self._dispatcher()
                message = "compiling the CPU kernel %r for this machine, once; it is then kept on disk (about 10 s)"
                notice = threading.Timer(
                    _UNEXPECTED_SECONDS if self._is_cached(dispatcher) else 0.0,
                    logger.warning,
                    (message, self._function.__name__),
                )
                notice.start()
                try:
                    dispatcher.compile(self._signature)
                    dispatcher.disable_compile()  # other layouts are converted, not compiled for
                finally:
                    notice.cancel()
                self._compiled = dispatcher
        return self._compiled

    def _dispatcher(self) -> Any:
        try:
            return numba.njit(self._function, cache=True, **_OPTIONS)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            logger.warning("no writable folder for compiled kernels, each process compiles its own: %s", error)
            return numba.njit(self._function, **_OPTIONS)

    def _is_cached(self, dispatcher: Any) -> bool:
        code, folder = self._function.__code__, dispatcher.stats.cache_path
        index = f"{Path(code.co_filename).stem}.{self._function.__qualname__}-{code.co_firstlineno}.*.nbi"
        return folder is not None and any(Path(folder).glob(index))


def kernel(signature: Any) -> Callable[[Callable], Kernel]:
    """Mark a function as a kernel with the given Numba signature."""
    return partial(Kernel, signature)
