"""What every request passes before any of its body is read, and what every answer carries."""

import hmac
from collections.abc import MutableMapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mambamatcher.web.sessions import Session, SessionStore
from mambamatcher.web.settings import Settings
from mambamatcher.web.work import BusyError, Work

COOKIE = "mambamatcher_session"
RETRY_SECONDS = 2
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/", "/health", "/openapi.json", "/signin")  # what a client without the token may reach; and static/
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
    """ASGI middleware: host, origin, token, size and number of requests; security headers on every answer."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: SessionStore, work: Work) -> None:
        self.app = app
        self.settings = settings
        self.sessions = sessions
        self.work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
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
            if scope["method"] in SAFE_METHODS:
                await self.app(scope, receive, send_with_headers)
                return
            size = self._body_size(headers)
            try:
                with self.work.admit(size):
                    await self.app(scope, receive, send_with_headers)
            except BusyError as error:
                wait = {"Retry-After": str(RETRY_SECONDS)}
                raise HTTPException(503, "the server is busy; try again in a moment", wait) from error
        except HTTPException as refusal:
            answer = JSONResponse({"detail": refusal.detail}, refusal.status_code, refusal.headers)
            await answer(scope, receive, send_with_headers)

    def _check_host(self, headers: Headers) -> None:
        """Refuse names we were not told of: a foreign site can point its own name at this machine (DNS rebinding)."""
        name = _host_name(headers.get("host", ""))
        if not _is_address(name) and name not in ("localhost", *self.settings.host_names):
            raise HTTPException(
                421, f"this server is not {name or 'reached without a host name'!r}; start it with --host-name"
            )

    def _check_origin(self, headers: Headers) -> None:
        """Refuse requests that another site's page makes in the user's browser."""
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise HTTPException(403, "requests from pages of another site are not answered")

    def _check_token(self, path: str, headers: Headers) -> None:
        """Let in who has the token or, since only they could start one, a session."""
        if self.settings.token is None or path in OPEN_PATHS or path.startswith("/static/"):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and same_secret(given, self.settings.token):
            return
        if find_session(self.sessions, headers) is None:
            sign_in = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "this server asks for its token: send 'Authorization: Bearer TOKEN'", sign_in)

    def _body_size(self, headers: Headers) -> int:
        length = headers.get("content-length", "0" if "transfer-encoding" not in headers else "")
        if not (length.isascii() and length.isdigit()):
            raise HTTPException(411, "send the length of the request (Content-Length)")
        if int(length) > self.settings.request_bytes:
            raise HTTPException(
                413, f"the request has {length} bytes, more than the {self.settings.request_bytes:,} allowed"
            )
        return int(length)


def same_secret(given: str, secret: str) -> bool:
    """Compare in a time that does not tell how much was right."""
    return hmac.compare_digest(given.encode(), secret.encode())


def find_session(sessions: SessionStore, headers: Headers) -> Session | None:
    """Return the session whose cookie came with a request."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return sessions.find(cookie.value if cookie else None)


def _host_name(host: str) -> str:
    """Return a Host header's name, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
