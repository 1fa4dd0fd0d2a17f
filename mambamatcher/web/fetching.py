"""Images of Label Studio: from its origin alone, with limits on size, type and time, and without redirects."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from os.path import basename
from threading import Event, Timer
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from mambamatcher.errors import InputError
from mambamatcher.web.uploads import Upload, display_name

MAX_SECONDS = 20.0  # from the connection to the last byte
CONNECT_SECONDS = 5.0  # nothing can end this wait earlier, and the server must stop within 10 seconds
THREADS = 4  # of their own: a slow server must not stop the work for other clients
CHUNK_BYTES = 64 * 1024
MAX_TOKEN_BYTES = 64 * 1024
# Where Label Studio serves the images of tasks. Only these paths get the API key, so that nobody can use it for others.
DATA_PATHS = ("data/", "storage-data/", "tasks/", "projects/")
KEPT_IN_URLS = "/?#[]@!$&'()*+,;=:%~-._"  # all other characters are percent-encoded
SHOWN = 120  # characters of an address in a message
UNNAMED_TYPES = ("application/octet-stream", "binary/octet-stream")  # of servers that do not know the type


class LabelStudioImages:
    """The images of one Label Studio server.

    Args:
        url: The address of the server. Nothing is fetched from another origin (scheme, host and port).
        key: The API key of one of its users: a personal access token or a legacy token. None sends none.
        max_bytes: Limit on the file size of an image.
        max_seconds: Limit on the time for one image.

    Raises:
        InputError: The address is not that of a server.
    """

    def __init__(self, url: str, key: str | None, max_bytes: int, max_seconds: float = MAX_SECONDS) -> None:
        self._base = check_server_url(url)
        self._key = key
        self._access: str | None = None  # what a personal access token was exchanged for
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fetch")
        self._open: set[socket.socket] = set()

    def close(self) -> None:
        """Cut all connections, so that no image is waited for when the server stops."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for connected in list(self._open):
            _cut(connected)

    async def fetch(self, address: str) -> Upload:
        """Fetch an image in a thread.

        Args:
            address: A URL of that server, or a path on it.

        Raises:
            InputError: The address is not allowed, or what is there cannot be had within the limits.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.fetch_blocking, address)

    def fetch_blocking(self, address: str) -> Upload:
        """Fetch an image."""
        place = self.locate(address)
        status, content = self._get(place, self._authorization(place))
        if status == 401 and self._access is not None:  # it is valid for minutes only
            self._access = None
            status, content = self._get(place, self._authorization(place))
        if status != 200:
            raise InputError(f"{_short(address)} cannot be fetched: {self._explain(status)}")
        return Upload(content, display_name(basename(unquote(place.path))))

    def locate(self, address: str) -> SplitResult:
        """Return where to fetch an image from.

        Raises:
            InputError: It is on another origin, names a user, or leads out of a folder.
        """
        if re.search(r"[\x00-\x20\x7f\\]", address.replace(" ", "")):
            raise InputError(f"the image address {_short(address)} has control characters or backslashes")
        try:
            place = urlsplit(urljoin(self._base.geturl(), quote(address, safe=KEPT_IN_URLS)))
            same = _origin(place) == _origin(self._base)
        except ValueError as error:
            raise InputError(f"the image address {_short(address)} is not a URL") from error
        if not same or "@" in place.netloc:
            raise InputError(
                f"the image address {_short(address)} is not on {self._base.scheme}://{self._base.netloc}, "
                "the only server that images are fetched from; upload the image to Label Studio"
            )
        if ".." in re.split(r"[/\\?&=#]", unquote(address)):
            raise InputError(f"the image address {_short(address)} leads out of a folder ('..')")
        return place

    def _get(self, place: SplitResult, headers: dict[str, str]) -> tuple[int, bytes]:
        with self._response("GET", place, headers) as response:
            if response.status != 200:
                return response.status, b""
            kind = response.headers.get_content_type()
            if not kind.startswith("image/") and kind not in UNNAMED_TYPES:
                raise InputError(f"{_short(place.path)} is of the type {_short(kind)}, not an image")
            return 200, _read(response, self._max_bytes, place.path)

    @contextmanager
    def _response(
        self, method: str, place: SplitResult, headers: dict[str, str], body: bytes | None = None
    ) -> Iterator[HTTPResponse]:
        """Send a request; the connection is cut when the time is over, however slowly bytes arrive."""
        connect = HTTPSConnection if place.scheme == "https" else HTTPConnection
        connection = connect(place.hostname or "", place.port, timeout=min(CONNECT_SECONDS, self._max_seconds))
        late = Event()
        connected: socket.socket | None = None
        try:
            connection.connect()
            connected = connection.sock
            connected.settimeout(self._max_seconds)
            self._open.add(connected)
            with _cut_after(self._max_seconds, connected, late):
                target = place._replace(scheme="", netloc="", fragment="").geturl() or "/"
                connection.request(method, target, body, headers)
                yield connection.getresponse()
                if late.is_set():
                    raise TimeoutError
        except (OSError, HTTPException, UnicodeError, InputError) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                said = f"it took longer than {self._max_seconds:g} s"
            elif isinstance(error, InputError):
                raise
            else:
                said = getattr(error, "strerror", None) or repr(error)
            raise InputError(f"{_short(place.path)} cannot be fetched from {self._base.netloc}: {said}") from error
        finally:
            connection.close()
            self._open.discard(connected)

    def _authorization(self, place: SplitResult) -> dict[str, str]:
        prefix = self._base.path.rstrip("/") + "/"
        if self._key is None or not place.path.removeprefix(prefix).startswith(DATA_PATHS):
            return {}
        if self._key.count(".") != 2:  # a legacy token is no JSON Web Token
            return {"Authorization": f"Token {self._key}"}
        if self._access is None:
            self._access = self._exchange()
        return {"Authorization": f"Bearer {self._access}"}

    def _exchange(self) -> str:
        """Exchange the personal access token for the short-lived token that requests carry."""
        place = self._base._replace(path=self._base.path.rstrip("/") + "/api/token/refresh/")
        body = json.dumps({"refresh": self._key}).encode()
        with self._response("POST", place, {"Content-Type": "application/json"}, body) as response:
            if response.status == 200:
                try:
                    return str(json.loads(_read(response, MAX_TOKEN_BYTES, place.path))["access"])
                except (ValueError, LookupError, TypeError) as error:
                    raise InputError(f"{place.geturl()} did not answer as Label Studio does") from error
            raise InputError(f"Label Studio refuses the token of LABEL_STUDIO_API_KEY: status {response.status}")

    def _explain(self, status: int) -> str:
        if status in (401, 403):
            remedy = "its user must see the project" if self._key else "set it to the access token of a user"
            return f"Label Studio answers {status}; check the environment variable LABEL_STUDIO_API_KEY, {remedy}"
        if 300 <= status < 400:
            return f"Label Studio answers {status}, and redirects are not followed; upload the image to Label Studio"
        return f"Label Studio answers {status}"


@contextmanager
def _cut_after(seconds: float, connected: socket.socket, late: Event) -> Iterator[None]:
    """Cut a connection when the time is over: a timeout of the socket alone begins again with every byte."""

    def cut() -> None:
        late.set()
        _cut(connected)

    timer = Timer(seconds, cut)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(connected: socket.socket) -> None:
    with suppress(OSError):  # the other side was faster
        connected.shutdown(socket.SHUT_RDWR)


def check_server_url(url: str) -> SplitResult:
    """Return the parts of a server's address.

    Raises:
        InputError: It is not `http://host:port` or `https://host:port`, perhaps with a path.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment or re.search(r"[^\x21-\x7e]", url):
        raise InputError(f"{_short(url)} is not the address of a server; give one like http://localhost:8080")
    return parts


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


def _read(response: HTTPResponse, max_bytes: int, name: str) -> bytes:
    """Read a body, at most so many bytes of it."""
    content = bytearray()
    while part := response.read(min(CHUNK_BYTES, max_bytes + 1 - len(content))):
        content += part
        if len(content) > max_bytes or len(content) + (response.length or 0) > max_bytes:
            raise InputError(f"{_short(name)} has more than the {max_bytes:,} bytes allowed; make it smaller first")
    if response.length:
        raise InputError(f"{_short(name)} ended before its announced size; try again")
    return bytes(content)


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")
