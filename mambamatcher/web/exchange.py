"""One request and its response: their bytes are counted as they pass, and a client that stalls is not waited for."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from mambamatcher.web.workers import BusyError, WorkerPool

Message = MutableMapping[str, Any]

MIN_BYTES_PER_SECOND = 64 * 1024  # of a body, on average after its first seconds
SLICE_BYTES = 64 * 1024  # what is written at once; the rest of a response waits until the client has read it
FREE_BYTES = (
    64 * 1024
)  # of each exchange are not counted, so that small requests are answered while memory is exhausted


class MemoryBudget:
    """Limits the bytes of all bodies in progress, of requests and of responses.

    When it is exhausted, the exchange that has waited longest for its client is ended, so that slow clients cannot
    lock out the others. Use it only from the thread of the event loop.

    Args:
        max_bytes: Limit on the total size.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._held: dict[Exchange, int] = {}  # oldest first

    @property
    def used(self) -> int:
        """Total size of the bodies in progress."""
        return sum(self._held.values())

    def reserve(self, exchange: "Exchange", size: int) -> None:
        """Count bytes that an exchange has received, or wants to send.

        Raises:
            BusyError: They would exceed the limit, and no other exchange is slow.
        """
        while self.used + size > self.max_bytes:
            slow = next((each for each in self._held if each is not exchange and each.is_slow()), None)
            if slow is None:
                raise BusyError
            slow.end(BusyError())
            self.release(slow)
        self._held[exchange] = self._held.get(exchange, 0) + size

    def release(self, exchange: "Exchange") -> None:
        """Free the bytes of an exchange."""
        self._held.pop(exchange, None)


class Exchange:
    """One request and its response, between the server and the application.

    Args:
        receive: The server's function that returns the next part of the request.
        send: The function that sends a part of the response.
        max_bytes: Limit on the body of the request.
        max_seconds: Limit on the time without any byte of the body.
        memory: Counts the bytes of all exchanges.
        workers: Counts the requests in progress; None does not count this one.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        max_bytes: int,
        max_seconds: float,
        memory: MemoryBudget,
        workers: WorkerPool | None,
    ) -> None:
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._memory = memory
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._started = self._moved = self._loop.time()
        self._deadline = asyncio.timeout(max_seconds)
        self._received = 0
        self._body_complete = False
        self._body_empty = False
        self._in_progress = False
        self._client_left = asyncio.Event()
        self._disconnection: asyncio.Task[None] | None = None
        self._response_start: Message | None = None
        self._response_begun = False
        self._refusal: HTTPException | None = None

    async def run(self, app: ASGIApp, scope: Scope, *, has_body: bool) -> None:
        """Let the application answer.

        Args:
            app: The application.
            scope: The head of the request.
            has_body: Whether the client has announced a body.

        Raises:
            HTTPException: The request was refused before the application answered.
        """
        try:
            async with self._deadline:
                try:
                    if not has_body:
                        self._body_empty = True
                        self._complete_body()
                    await app(scope, self.receive, self.send)
                finally:
                    self._memory.release(self)
                    self._leave_workers()
                    if self._disconnection is not None:
                        self._disconnection.cancel()
        except TimeoutError:
            if not self._deadline.expired():
                raise
            if not self._response_begun and not self._client_left.is_set():
                raise self._refusal or HTTPException(
                    408, f"the request was incomplete after {self._loop.time() - self._started:.0f} s; send it faster"
                ) from None

    async def receive(self) -> Message:
        """Return the next part of the request, counted."""
        if self._body_empty:
            self._body_empty = False
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._body_complete:
            await self._client_left.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._client_left.set()
            return message
        size = len(message.get("body", b""))
        self._received += size
        if self._received > self._max_bytes:
            raise HTTPException(413, f"the request has more than the {self._max_bytes:,} bytes allowed")
        self._memory.reserve(self, _beyond_free(self._received) - _beyond_free(self._received - size))
        self._moved = now = self._loop.time()
        if message.get("more_body", False):
            slowest = self._started + self._max_seconds + self._received / MIN_BYTES_PER_SECOND
            self._reschedule(min(now + self._max_seconds, slowest))
        else:
            self._complete_body()
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response. Its start is held back until the first bytes fit into the memory budget."""
        if message["type"] == "http.response.start":
            self._response_start = message
            return
        body = message.get("body", b"")
        try:
            self._memory.reserve(self, _beyond_free(len(body)))
        except BusyError as refusal:
            self.end(refusal)
            await self._client_left.wait()  # interrupted by the end
        self._leave_workers()  # a client that does not read its response takes no place from others
        if self._response_start is not None:
            self._response_begun = True
            await self._send(self._response_start)
            self._response_start = None
        more = message.get("more_body", False)
        for start in range(0, max(1, len(body)), SLICE_BYTES):
            end = start + SLICE_BYTES
            part = {"type": message["type"], "body": body[start:end], "more_body": more or end < len(body)}
            await self._send(part)
            self._moved = self._loop.time()

    def is_slow(self) -> bool:
        """Return whether the exchange has waited for its client for long: for its body, or to take its response."""
        waits = not self._body_complete or self._response_begun
        now = self._loop.time()
        return waits and (now - self._moved > self._max_seconds / 5 or now - self._started > self._max_seconds / 2)

    def end(self, refusal: HTTPException | None = None) -> None:
        """End the exchange, with this answer if there is none yet. Work that has not begun is dropped."""
        self._refusal = refusal
        self._reschedule(self._loop.time())

    def _complete_body(self) -> None:
        self._body_complete = True
        if self._workers is not None:
            self._workers.enter()
            self._in_progress = True
        self._reschedule(None)
        self._disconnection = asyncio.create_task(self._end_when_client_leaves())

    async def _end_when_client_leaves(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._client_left.set()
        if not self._response_begun:
            self.end()

    def _leave_workers(self) -> None:
        if self._in_progress and self._workers is not None:
            self._workers.leave()
            self._in_progress = False

    def _reschedule(self, when: float | None) -> None:
        if not self._deadline.expired():
            self._deadline.reschedule(when)


def _beyond_free(size: int) -> int:
    return max(0, size - FREE_BYTES)
