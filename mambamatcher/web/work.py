"""Who may work, and where: a bounded number of requests, their heavy parts outside the event loop's thread."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

THREADS = 2  # one decodes while the other is in the model, whose passes take turns


class BusyError(Exception):
    """More requests than may be worked on at a time; come back in a moment."""


class Work:
    """Counts requests and their bytes against limits, and runs their jobs in the order they came."""

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self.requests = 0
        self._bytes = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="work")

    @contextmanager
    def admit(self, size: int) -> Iterator[None]:
        """Count a request with a body of `size` bytes while it is received and answered."""
        if self.requests >= self.max_requests or self._bytes + size > self.max_bytes:
            raise BusyError
        self.requests += 1
        self._bytes += size
        try:
            yield
        finally:
            self.requests -= 1
            self._bytes -= size

    async def run(self, job: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Run a job in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: job(*args, **kwargs))
