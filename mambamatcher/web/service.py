"""What the routes share: the models, the pictures, the work, and the limits on them."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from fastapi import Depends, HTTPException, Request, Response, UploadFile
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.matching.matcher import MatchResult
from mambamatcher.web.guard import COOKIE, find_session
from mambamatcher.web.models import Models
from mambamatcher.web.pictures import Picture, decode, label
from mambamatcher.web.sessions import Session, SessionStore
from mambamatcher.web.settings import Settings
from mambamatcher.web.work import Work


@dataclass(frozen=True)
class Upload:
    """A file's bytes and the name to show for it."""

    data: bytes
    name: str


@dataclass(frozen=True)
class Service:
    """One server's parts. Methods named `..._now` are jobs for a working thread."""

    settings: Settings
    models: Models
    sessions: SessionStore
    work: Work

    async def receive(self, file: UploadFile) -> Upload:
        """Return an uploaded file, unless it is too large."""
        name, limit = label(file.filename), self.settings.picture_bytes
        data = await file.read(limit + 1)
        if len(data) > limit:
            raise HTTPException(413, f"{name} has more than the {limit:,} bytes allowed; make it smaller first")
        return Upload(data, name)

    def decode_now(self, upload: Upload) -> Image.Image:
        """Return an upload's upright picture."""
        return decode(upload.data, upload.name, self.settings.picture_pixels)

    def match_now(
        self, model: str, source: Image.Image, target: Image.Image, points: Sequence[tuple[float, float]] | np.ndarray
    ) -> tuple[MatchResult | None, float]:
        """Find points, and say how long it took; without points the pair is compared for later ones."""
        matcher = self.models.get(model)
        began = time.perf_counter()
        pair = matcher.prepare(source, target)
        result = pair.match(points) if len(points) else None
        return result, time.perf_counter() - began

    def check_points(self, points: Sequence[object]) -> None:
        """Refuse more points than are allowed."""
        if len(points) > self.settings.points:
            raise InputError(f"there are {len(points)} points, more than the {self.settings.points} allowed")

    def session(self, request: Request) -> Session:
        """Return the client's session."""
        session = find_session(self.sessions, request.headers)
        if session is None:
            raise HTTPException(404, "your pictures are no longer here, since you were away too long; add them again")
        return session

    def session_or_new(self, request: Request, response: Response) -> Session:
        """Return the client's session, or start one."""
        return find_session(self.sessions, request.headers) or self.new_session(request, response)

    def new_session(self, request: Request, response: Response) -> Session:
        """Start a session and give the client its secret."""
        session = self.sessions.open()
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, session.secret, httponly=True, samesite="strict", secure=secure)
        return session

    def picture(self, request: Request, picture_id: str) -> Picture:
        """Return one of the client's own pictures."""
        picture = self.session(request).pictures.get(picture_id)
        if picture is None:
            raise HTTPException(404, "there is no such picture among yours; add it again")
        return picture

    def warm_up(self) -> None:
        """Load the default model and let it compile what it compiles, so that the first client need not wait."""
        grey = Image.new("RGB", (64, 64), "grey")
        self.match_now(self.models.names[0], grey, grey, [(32.0, 32.0)])
        self.models.forget_pictures()

    async def forget_in_time(self) -> None:
        """Drop, again and again, what clients have left behind."""
        keep = self.settings.keep_seconds
        cleared = time.monotonic()
        while True:
            await asyncio.sleep(min(60.0, keep / 4))
            # single requests are not in a session, but their features are in the matchers' memory
            if self.sessions.forget_expired() or time.monotonic() - cleared > keep:
                await self.work.run(self.models.forget_pictures)
                cleared = time.monotonic()


def get_service(request: Request) -> Service:
    """Return the parts of the server that got this request."""
    return request.app.state.service


ServiceOf = Annotated[Service, Depends(get_service)]
