"""Compile a kernel with Numba on first use and cache the machine code on disk."""

import inspect
import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba

logger = logging.getLogger(__name__)

# No "fastmath": it breaks NaN, optimises away rounding by adding a large number, and may change results from one
# compilation to the next.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_UNEXPECTED_SECONDS = 5.0  # loading cached machine code takes less, unless the cache is stale


def inlined(function: Callable) -> Callable:
    """Compile a helper function that kernels call. It is compiled into each of them."""
    return numba.njit(inspect.unwrap(function), **_OPTIONS)


class Kernel:
    """A function that is compiled for one fixed signature when it is first called.

    The signature accepts arrays of any memory layout, so a transposed tensor never triggers another compilation.
    Numba's cache only notices changes to the file of the kernel itself: touch that file after changing a helper.
    """

    def __init__(self, signature: Any, function: Callable) -> None:
        # Tests wrap every function in a type checker, which Numba cannot compile.
        self._function = inspect.unwrap(function)
        self._signature = signature
        self._lock = threading.Lock()
        self._compiled: Callable | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel; compile it first if necessary."""
        return (self._compiled or self._compile())(*arguments)

    def _compile(self) -> Callable:
        with self._lock:
            if self._compiled is None:
                dispatcher = self._dispatcher()
                message = "compiling the CPU kernel %r for this machine (about 10 s, once: it is then cached on disk)"
                notice = threading.Timer(
                    _UNEXPECTED_SECONDS if self._is_cached(dispatcher) else 0.0,
                    logger.warning,
                    (message, self._function.__name__),
                )
                notice.start()
                try:
                    dispatcher.compile(self._signature)
                    dispatcher.disable_compile()  # convert other arguments instead of compiling again
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
            logger.warning("no writable folder for compiled kernels, so every process compiles its own: %s", error)
            return numba.njit(self._function, **_OPTIONS)

    def _is_cached(self, dispatcher: Any) -> bool:
        code, folder = self._function.__code__, dispatcher.stats.cache_path
        index = f"{Path(code.co_filename).stem}.{self._function.__qualname__}-{code.co_firstlineno}.*.nbi"
        return folder is not None and any(Path(folder).glob(index))


def kernel(signature: Any) -> Callable[[Callable], Kernel]:
    """Return a decorator that turns a function into a `Kernel` with the given Numba signature."""
    return partial(Kernel, signature)
