"""Sessions: the images of each client, in memory only, for a limited time."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers

from mambamatcher.errors import InputError
from mambamatcher.web.uploads import StoredImage

COOKIE = "mambamatcher_session"
MAX_SESSIONS = 1000


@dataclass
class Session:
    """The images of one client, which is identified by a secret in its cookie."""

    secret: str = field(repr=False)
    last_used: float
    images: dict[str, StoredImage] = field(default_factory=dict, repr=False)  # longest unused first

    def find(self, image_id: str) -> StoredImage | None:
        """Return the image of this id, if there is one, and count that as a use."""
        image = self.images.pop(image_id, None)
        if image is not None:
            self.images[image_id] = image
        return image

    @property
    def size(self) -> int:
        """Total size of the images in bytes."""
        return sum(len(image.jpeg) for image in self.images.values())


class SessionStore:
    """All sessions, limited in number, in total size and in idle time.

    When space is needed, the session that has been idle longest is evicted first; when there are too many sessions,
    one without images. Not thread-safe: use it only from the thread of the event loop.

    Args:
        max_bytes: Limit on the total size of all images.
        keep_seconds: Idle time after which a session expires.
        clock: Returns the current time in seconds; tests pass their own.
    """

    def __init__(self, max_bytes: int, keep_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_bytes = max_bytes
        self.keep_seconds = keep_seconds
        self._clock = clock
        self._sessions: dict[str, Session] = {}  # longest idle first

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def size(self) -> int:
        """Total size of all images in bytes."""
        return sum(session.size for session in self._sessions.values())

    def open(self) -> Session:
        """Start a new session."""
        if len(self) >= MAX_SESSIONS:
            empty = (secret for secret, session in self._sessions.items() if not session.images)
            del self._sessions[next(empty, next(iter(self._sessions)))]
        session = Session(secrets.token_urlsafe(32), self._clock())
        self._sessions[session.secret] = session
        return session

    def find(self, secret: str | None) -> Session | None:
        """Return the session with this secret, or None if it does not exist or has expired. Resets its idle time."""
        self.evict_expired()
        session = self._sessions.pop(secret or "", None)
        if session is not None:
            session.last_used = self._clock()
            self._sessions[session.secret] = session
        return session

    def find_by_cookie(self, headers: Headers) -> Session | None:
        """Return the session whose cookie a request carries, as `find` does."""
        # By hand: http.cookies rejects them all if another application on this host has set one that it cannot read.
        for line in headers.getlist("cookie"):
            for cookie in line.split(";"):
                name, _, value = cookie.strip().partition("=")
                if name == COOKIE and value in self._sessions:
                    return self.find(value)
        return None

    def add(self, session: Session, image: StoredImage, max_images: int) -> None:
        """Add an image to a session, evicting other sessions if needed, and then its own longest unused images.

        Raises:
            InputError: The session has `max_images` images already.
        """
        if len(session.images) >= max_images:
            raise InputError(f"there are already {max_images} images, the most allowed; remove some first")
        self._sessions.setdefault(session.secret, session)  # it may have been evicted during the upload
        self.find(session.secret)
        self._make_room(session, len(image.jpeg))
        session.images[image.id] = image

    def evict_expired(self) -> bool:
        """Drop the sessions that were idle too long. Returns whether there were any."""
        oldest = self._clock() - self.keep_seconds
        expired = [secret for secret, session in self._sessions.items() if session.last_used < oldest]
        for secret in expired:
            del self._sessions[secret]
        return bool(expired)

    def _make_room(self, session: Session, needed: int) -> None:
        while self.size + needed > self.max_bytes:
            idle = next(each for each in self._sessions.values() if each.images)
            if idle is session:  # the last one that has any
                del session.images[next(iter(session.images))]
            else:
                del self._sessions[idle.secret]
