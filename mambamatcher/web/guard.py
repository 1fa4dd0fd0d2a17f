"""The middleware that checks every request before its body is read, and adds security headers to every response."""

import hmac
import re
from base64 import b64decode
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mambamatcher.web.exchange import Exchange
from mambamatcher.web.state import ServerState, Settings

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/", "/health", "/openapi.json", "/signin")  # reachable without the token, as is /static/
FORM_BYTES = 256 * 1024  # the fields of a form besides its files
JSON_BYTES = 256 * 1024
TASKS_BYTES = 4 * 1024 * 1024  # about as many tasks as a request may have, with their earlier annotations
SMALL_BYTES = 4 * 1024
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """ASGI middleware that checks host, origin, token, body size and the number of requests in progress."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self.app = app
        self.settings = state.settings
        self.sessions = state.sessions
        self.workers = state.workers
        self.memory = state.memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the application, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_origin(headers)
            self._check_token(scope["path"], headers)
            max_bytes = body_limit(scope["path"], self.settings)
            size = _announced_bytes(headers)
            if size > max_bytes:
                raise HTTPException(413, f"the request has {size:,} bytes, more than the {max_bytes:,} allowed")
            exchange = Exchange(
                receive,
                send_with_headers,
                max_bytes=max_bytes,
                max_seconds=self.settings.receive_seconds,
                memory=self.memory,
                workers=None if scope["method"] in SAFE_METHODS else self.workers,
            )
            await exchange.run(self.app, scope, has_body=size > 0)
        except HTTPException as refusal:
            answer = JSONResponse({"detail": refusal.detail}, refusal.status_code, refusal.headers)
            await answer(scope, receive, send_with_headers)

    def _check_host(self, headers: Headers) -> None:
        """Refuse unknown host names: another site can point its own name at this machine (DNS rebinding)."""
        name = _host_name(headers.get("host", ""))
        if not _is_address(name) and name not in ("localhost", *self.settings.host_names):
            given = f"the host name {name!r} is unknown to this server" if name else "the request has no host name"
            raise HTTPException(421, f"{given}; start the server with --host-name")

    def _check_origin(self, headers: Headers) -> None:
        """Refuse requests that a page of another site makes in the user's browser."""
        origin = headers.get("origin")
        if origin is not None and _host_and_port(origin) != headers.get("host"):
            raise HTTPException(403, "requests from pages of other sites are refused")

    def _check_token(self, path: str, headers: Headers) -> None:
        """Accept the token or a session, which only a client with the token could have started."""
        if self.settings.token is None or path in OPEN_PATHS or path.startswith("/static/"):
            return
        if any(same_secret(given, self.settings.token) for given in _given_tokens(headers)):
            return
        if self.sessions.find_by_cookie(headers) is None:
            challenge = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "this server requires its token: send 'Authorization: Bearer TOKEN'", challenge)


def body_limit(path: str, settings: Settings) -> int:
    """Return how many bytes the body of a request may have, for this path."""
    limits = {
        "/signin": SMALL_BYTES,
        "/example": 0,
        "/pairs/match": JSON_BYTES,
        "/drawing": JSON_BYTES,
        "/pictures": settings.picture_bytes + FORM_BYTES,
        "/match": 2 * settings.picture_bytes + FORM_BYTES,
        "/propagate": settings.request_bytes,
        "/setup": JSON_BYTES,
        "/predict": TASKS_BYTES,
        "/v1/predict": settings.picture_bytes * 4 // 3 + JSON_BYTES,  # an image in base64
    }
    limit = JSON_BYTES if path.startswith("/review/targets/") else limits.get(path, SMALL_BYTES)
    return min(limit, settings.request_bytes)


def _announced_bytes(headers: Headers) -> int:
    """Return the size of the body. A body that does not announce its size is refused, also one that does both."""
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not re.fullmatch("[0-9]{1,15}", length):
        raise HTTPException(
            411, "send the length of the request (Content-Length) and no Transfer-Encoding", {"Connection": "close"}
        )
    return int(length)


def same_secret(given: str, secret: str) -> bool:
    """Compare two secrets in constant time, so that the time reveals nothing about how many characters were right."""
    return hmac.compare_digest(given.encode(), secret.encode())


def _given_tokens(headers: Headers) -> Iterator[str]:
    """Yield the tokens of a request. Annotation tools cannot send it as a bearer: Label Studio sends a password."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        yield given
    if scheme.lower() == "basic":
        with suppress(ValueError):  # it is not base64 of UTF-8
            yield b64decode(given, validate=True).decode().partition(":")[2]
    yield headers.get("token", "")  # X-AnyLabeling


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _host_and_port(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
