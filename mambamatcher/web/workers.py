"""Where the heavy work is done: a limited number of requests, worker threads, and the models they run."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import ParamSpec, TypeVar

from starlette.exceptions import HTTPException

from mambamatcher.matching.matcher import Matcher
from mambamatcher.registry import unknown

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

THREADS = 2  # one decodes images while the other runs the model, which computes one pass at a time


RETRY_SECONDS = 2


class BusyError(HTTPException):
    """The server has reached its limit on requests or bytes in progress."""

    def __init__(self) -> None:
        super().__init__(503, "the server is busy; try again in a moment", {"Retry-After": str(RETRY_SECONDS)})


class WorkerPool:
    """Limits the requests in progress, and runs their blocking work in threads, first come first served.

    Args:
        max_requests: Limit on the requests that are completely received and not answered yet.
    """

    def __init__(self, max_requests: int) -> None:
        self.max_requests = max_requests
        self.requests = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="work")

    def enter(self) -> None:
        """Count a request that is completely received, until `leave`.

        Raises:
            BusyError: The limit is reached.
        """
        if self.requests >= self.max_requests:
            raise BusyError
        self.requests += 1

    def leave(self) -> None:
        """Stop counting a request."""
        self.requests -= 1

    async def run(self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Run a blocking function in one of the threads. If the caller is cancelled first, it may never run."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*args, **kwargs))


class ModelPool:
    """The models that the server offers by name. Each is loaded on first use; the first one is the default.

    A client chooses among these names and never names a file.

    Args:
        loaders: For each name, a function that loads the model.
    """

    def __init__(self, loaders: Mapping[str, Callable[[], Matcher]]) -> None:
        self._loaders = dict(loaders)
        self._loaded: dict[str, Matcher] = {}
        self._loading = Lock()

    @property
    def names(self) -> list[str]:
        """All names, the default first."""
        return list(self._loaders)

    def resolve(self, name: str | None) -> str:
        """Return `name` if it is offered, or the default's name for None.

        Raises:
            ConfigError: No model of this name is offered.
        """
        if name is not None and name not in self._loaders:
            raise unknown("model", name, self._loaders)
        return name or self.names[0]

    def get(self, name: str) -> Matcher:
        """Return the matcher of this name, loading it if needed."""
        with self._loading:
            if name not in self._loaded:
                self._loaded[name] = self._loaders[name]()
            return self._loaded[name]

    def clear_caches(self) -> None:
        """Drop the cached features of all images."""
        for matcher in self._loaded.copy().values():
            matcher.clear_cache()
