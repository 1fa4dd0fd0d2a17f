"""What the server remembers of its clients: pictures, in memory only, each client's own, for a limited time."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mambamatcher.errors import InputError
from mambamatcher.web.pictures import Picture

MAX_SESSIONS = 1000


@dataclass
class Session:
    """One client, known by a secret that only it has."""

    secret: str = field(repr=False)
    last_used: float
    pictures: dict[str, Picture] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """Bytes of its pictures."""
        return sum(len(picture.jpeg) for picture in self.pictures.values())


class SessionStore:
    """All sessions, up to a number of bytes; those idle longest go first. Used by the event loop's thread only."""

    def __init__(self, max_bytes: int, keep_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_bytes = max_bytes
        self.keep_seconds = keep_seconds
        self._clock = clock
        self._sessions: dict[str, Session] = {}  # longest idle first

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def size(self) -> int:
        """Bytes of all pictures."""
        return sum(session.size for session in self._sessions.values())

    def open(self) -> Session:
        """Start a session."""
        self._make_room(0, MAX_SESSIONS - 1)
        session = Session(secrets.token_urlsafe(32), self._clock())
        self._sessions[session.secret] = session
        return session

    def find(self, secret: str | None) -> Session | None:
        """Return the session of this secret, if it is still kept, and keep it longer."""
        self.forget_expired()
        session = self._sessions.pop(secret or "", None)
        if session is not None:
            session.last_used = self._clock()
            self._sessions[session.secret] = session
        return session

    def add(self, session: Session, picture: Picture, max_pictures: int) -> None:
        """Keep a picture in a session."""
        if len(session.pictures) >= max_pictures:
            raise InputError(f"there are {max_pictures} pictures already, as many as are allowed; remove some first")
        if session.size + len(picture.jpeg) > self.max_bytes:
            raise InputError(f"these pictures need more than the {self.max_bytes:,} bytes allowed; remove some first")
        self._sessions.setdefault(session.secret, session)  # it may have had to go meanwhile
        self.find(session.secret)
        self._make_room(len(picture.jpeg), MAX_SESSIONS)
        session.pictures[picture.id] = picture

    def forget_expired(self) -> bool:
        """Drop the sessions that were idle too long; tell whether there were any."""
        oldest = self._clock() - self.keep_seconds
        expired = [secret for secret, session in self._sessions.items() if session.last_used < oldest]
        for secret in expired:
            del self._sessions[secret]
        return bool(expired)

    def _make_room(self, needed: int, max_sessions: int) -> None:
        while self._sessions and (len(self) > max_sessions or self.size + needed > self.max_bytes):
            del self._sessions[next(iter(self._sessions))]
