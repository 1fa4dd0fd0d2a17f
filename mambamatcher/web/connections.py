"""Connections: how many may be open, and how long the server waits for a client before and after a request.

A request's body is timed by `exchange.py`, which can answer; here a connection is only closed.
"""

import asyncio
import logging
import socket
import struct
import time
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from mambamatcher.web.guard import HEADERS

if TYPE_CHECKING:
    from fastapi import FastAPI

ACCEPTED_AT_ONCE = 16  # few, so that a new connection can send its request before many others are accepted
QUEUED_CONNECTIONS = 1024  # by the system, until they are accepted
STOP_SECONDS = 3  # what is in progress may take this long after the signal to stop
LOG_RECORDS_PER_MINUTE = 30


class LimitedProtocol(H11Protocol):
    """A connection that is closed when its client stalls, or when there are too many and it has waited longest."""

    _waiting_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the connection; close another one if there are too many."""
        super().connection_made(transport)
        self._settings = self.config.app.state.server.settings  # type: ignore[union-attr]
        self._waiting_since = self.loop.time()
        self._progress: object = None
        self._watcher = self.loop.call_soon(self._close_if_stalled)
        connections = [each for each in self.connections if not each.transport.is_closing()]
        if len(connections) > self._settings.connections:
            waiting = [each for each in connections if isinstance(each, LimitedProtocol) and each.waits_for_client()]
            # Those that have sent no request first, so that uploads of others are not interrupted.
            min(waiting, key=lambda each: (each._is_answering(), each._waiting_since)).reset()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._watcher.cancel()
        super().connection_lost(exc)

    def waits_for_client(self) -> bool:
        """Return whether the next step is the client's: to send more of its request, or to read its response."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or not self._is_answering()

    def reset(self) -> None:
        """Close the connection at once. Without lingering, the system also frees what the client has not read."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, with the headers of every other response."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        headers = [("Content-Type", "application/json"), ("Connection", "close"), *HEADERS.items()]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=b'{"detail":"the request is not valid HTTP/1.1"}'),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _is_answering(self) -> bool:
        """Return whether the application works on a request, or waits for its body."""
        unsent = self.transport.get_write_buffer_size()
        return unsent == 0 and self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY)

    def _close_if_stalled(self) -> None:
        """Close the connection if nothing has changed for too long; runs several times in that time."""
        unsent = self.transport.get_write_buffer_size()
        progress = (self.cycle, self.conn.their_state, self.conn.our_state, unsent)
        now = self.loop.time()
        if progress != self._progress or self._is_answering():
            self._progress, self._waiting_since = progress, now
        elif now - self._waiting_since > self._settings.receive_seconds:
            self.reset()
            return
        self._watcher = self.loop.call_later(self._settings.receive_seconds / 5, self._close_if_stalled)


class LogLimit(logging.Filter):
    """Drops log records beyond a number per minute, so that no client can fill the disk with them."""

    def __init__(self, per_minute: int = LOG_RECORDS_PER_MINUTE) -> None:
        super().__init__()
        self._per_minute = per_minute
        self._minute = 0
        self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._count = minute, 0
        self._count += 1
        if self._count == self._per_minute:
            record.msg, record.args, record.exc_info = "too many messages; the rest of this minute is dropped", (), None
        return self._count <= self._per_minute


class LimitedServer(uvicorn.Server):
    """A server that accepts few connections at once and lets the system queue many."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen. asyncio knows one number for both, so that of the system is set afterwards."""
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(QUEUED_CONNECTIONS)


def limited_server(app: "FastAPI") -> LimitedServer:
    """Return a server that limits connections, waiting, log messages and the time to stop."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    limit = LogLimit()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(limit)
    return LimitedServer(config)
