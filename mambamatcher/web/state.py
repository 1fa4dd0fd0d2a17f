"""What all routes share: the settings, the models, the sessions and the worker threads."""

import asyncio
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import numpy as np
from fastapi import Depends, HTTPException, Request, Response, UploadFile
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.matching.matcher import LoadedImage, Matcher, MatchResult, Readable
from mambamatcher.web.exchange import MemoryBudget
from mambamatcher.web.schemas import MAX_POINTS, MAX_TARGETS
from mambamatcher.web.sessions import COOKIE, Session, SessionStore
from mambamatcher.web.uploads import StoredImage, Upload, decode, display_name
from mambamatcher.web.workers import ModelPool, WorkerPool

MIB = 2**20
COPIES = 64  # images kept as a model sees them, 0.9 MB each, so that a click decodes nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Access and limits of one server. The defaults suit a machine with 4 GB of memory and about twenty clients.

    Fields that `GET /models` reports to clients are named as in its JSON.

    Attributes:
        token: The secret that clients must send; None lets every client in.
        host_names: Names the server is reached by, besides localhost and plain IP addresses.
        picture_bytes: Limit on the file size of an image.
        picture_pixels: Limit on the pixels of an image.
        points: Limit on the points of a request.
        targets: Limit on the target images of a session or a `/propagate` request.
        request_bytes: Limit on the body of a request; most routes allow less.
        receiving_bytes: Limit on the bodies of all requests and responses in progress together.
        receive_seconds: How long the server waits for the next bytes of a request, or for a client to read.
        connections: Limit on open connections; beyond it the one that has waited longest for its client is closed.
        requests: Limit on the requests in progress; further ones are answered with status 503.
        stored_bytes: Limit on the images of all sessions together.
        keep_seconds: How long a session and its images are kept after the client's last request.
    """

    token: str | None = None
    host_names: tuple[str, ...] = ()
    picture_bytes: int = 20 * MIB
    picture_pixels: int = 40_000_000
    points: int = MAX_POINTS
    targets: int = MAX_TARGETS
    request_bytes: int = 100 * MIB
    receiving_bytes: int = 400 * MIB
    receive_seconds: float = 10.0
    connections: int = 200
    requests: int = 64
    stored_bytes: int = 512 * MIB
    keep_seconds: float = 30 * 60.0


class ServerState:
    """The shared parts of one server, and what routes do with them.

    Methods that end in `_blocking` take long: run them in a worker thread, with `workers.run`.

    Args:
        settings: Access and limits.
        loaders: The models to offer: for each name, a function that loads it. The first is the default.
    """

    def __init__(self, settings: Settings, loaders: Mapping[str, Callable[[], Matcher]]) -> None:
        self.settings = settings
        self.models = ModelPool(loaders)
        self.sessions = SessionStore(settings.stored_bytes, settings.keep_seconds)
        self.workers = WorkerPool(settings.requests)
        self.memory = MemoryBudget(settings.receiving_bytes)
        self.read_blocking = lru_cache(COPIES)(self._read_copy)

    async def receive(self, file: UploadFile) -> Upload:
        """Read an uploaded file, or refuse it with status 413 if it is too large."""
        name, limit = display_name(file.filename), self.settings.picture_bytes
        data = await file.read(limit + 1)
        await file.close()  # frees its own copy
        if len(data) > limit:
            raise HTTPException(413, f"{name} has more than the {limit:,} bytes allowed; make it smaller first")
        return Upload(data, name)

    def decode_blocking(self, upload: Upload) -> Image.Image:
        """Decode an upload to an upright image."""
        return decode(upload.data, upload.name, self.settings.picture_pixels)

    def match_blocking(
        self, model: str, source: Readable, target: Readable, points: Sequence[tuple[float, float]] | np.ndarray
    ) -> tuple[MatchResult | None, float, float]:
        """Transfer points from source to target.

        Without points the pair is only encoded and correlated, which makes the next call for it faster.

        Returns:
            The result, or None without points; the threshold of the model; and the seconds it took.
        """
        matcher = self.models.get(model)
        start = time.perf_counter()
        pair = matcher.prepare(source, target)
        result = pair.match(points) if len(points) else None
        return result, matcher.calibration.threshold, time.perf_counter() - start

    def _read_copy(self, model: str, image: StoredImage) -> LoadedImage:
        """Return a stored image as the model sees it, and nothing larger."""
        loaded = self.models.get(model).read(image.decode_copy())
        return replace(loaded, image=Image.fromarray(np.ascontiguousarray(loaded.pixels.transpose(1, 2, 0))))

    def check_point_count(self, points: Sequence[object]) -> None:
        """Raise `InputError` for more points than are allowed."""
        if len(points) > self.settings.points:
            raise InputError(f"there are {len(points)} points, more than the {self.settings.points} allowed")

    def session(self, request: Request) -> Session:
        """Return the client's session, or answer with status 404 if there is none."""
        session = self.sessions.find_by_cookie(request.headers)
        if session is None:
            raise HTTPException(404, "your images are no longer here: the session has expired; add them again")
        return session

    def session_or_new(self, request: Request, response: Response) -> Session:
        """Return the client's session, or start one."""
        return self.sessions.find_by_cookie(request.headers) or self.new_session(request, response)

    def new_session(self, request: Request, response: Response) -> Session:
        """Start a session and send the client its secret in a cookie."""
        session = self.sessions.open()
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, session.secret, httponly=True, samesite="strict", secure=secure)
        return session

    def image(self, request: Request, image_id: str) -> StoredImage:
        """Return an image of the client's session, or answer with status 404 if there is none of this id."""
        image = self.session(request).find(image_id)
        if image is None:
            raise HTTPException(404, "your session has no such image; add it again")
        return image

    def warm_up(self) -> None:
        """Load the default model and compile its kernels, so that the first client does not wait for it."""
        grey = Image.new("RGB", (64, 64), "grey")
        self.match_blocking(self.models.names[0], grey, grey, [(32.0, 32.0)])
        self.models.clear_caches()
        gc.collect()
        gc.freeze()  # what is here stays; visiting it in every collection took most of the time of a hostile request

    async def evict_periodically(self) -> None:
        """Drop expired sessions and the cached features of their images, until cancelled."""
        keep = self.settings.keep_seconds
        cleared = time.monotonic()
        while True:
            await asyncio.sleep(min(60.0, keep / 4))
            # The stateless routes have no session that could expire, but the matchers cache features of their images.
            if self.sessions.evict_expired() or time.monotonic() - cleared > keep:
                await self.workers.run(self.models.clear_caches)
                self.read_blocking.cache_clear()
                cleared = time.monotonic()


async def get_state(request: Request) -> ServerState:
    """Return the state of the server that received this request."""
    return request.app.state.server


State = Annotated[ServerState, Depends(get_state)]
