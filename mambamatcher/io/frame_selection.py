"""Which frames of a video are used: every so many, between two positions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

from mambamatcher.errors import InputError


@dataclass(frozen=True)
class Position:
    """A place in a video: seconds since its first frame, or the number of a frame, from 0."""

    value: int | float
    is_frame: bool = False

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read a position: `2.5` or `2.5s` is a time in seconds, `75f` the number of a frame.

        Raises:
            InputError: The text is neither.

        Example:
            >>> Position.parse("75f"), str(Position.parse("2.50s"))
            (Position(value=75, is_frame=True), '2.5')
        """
        is_frame = text.endswith("f")
        number = text.removesuffix("f" if is_frame else "s")
        try:
            value: int | float = int(number) if is_frame else float(number)
        except ValueError:
            value = -1
        if not (value >= 0 and (is_frame or isfinite(value))):
            raise InputError(
                f"a position in a video is a time in seconds, such as 2.5, or a frame, such as 75f, got {text!r:.40}"
            )
        return cls(value, is_frame)

    def is_reached(self, number: int, time: float) -> bool:
        """Return whether a frame lies at this position or after it."""
        return (number if self.is_frame else time) >= self.value

    def __str__(self) -> str:
        return f"{self.value}f" if self.is_frame else f"{self.value:.15g}"  # all digits, for `from_json`


@dataclass(frozen=True, kw_only=True)
class FrameSelection:
    """Every `every`-th frame from `start` on, that one included, to before `stop`."""

    every: int = 1
    start: Position = Position(0)
    stop: Position | None = None

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(f"--every must be at least 1, got {self.every}")
        if self.stop is not None and self._is_empty(self.stop):
            raise InputError(f"--to {self.stop} must be after --from {self.start}; no frame is between them")

    def _is_empty(self, stop: Position) -> bool:
        is_alike = self.start.is_frame == stop.is_frame or not self.start.value  # 0 is the same in both
        return is_alike and stop.value <= self.start.value

    def choose(self, frames: Iterable[tuple[int, float]]) -> Iterator[tuple[int, float]]:
        """Yield those of all frames (number and time) that are selected; what comes after the last is not asked for."""
        first: int | None = None
        for number, time in frames:
            if self.stop is not None and self.stop.is_reached(number, time):
                return
            if first is None and self.start.is_reached(number, time):
                first = number
            if first is not None and (number - first) % self.every == 0:
                yield number, time

    def to_json(self) -> dict[str, int | str | None]:
        """Return plain values, in the words of the command line."""
        return {"every": self.every, "from": str(self.start), "to": None if self.stop is None else str(self.stop)}

    @classmethod
    def from_json(cls, content: dict[str, int | str | None]) -> "FrameSelection":
        """Read what `to_json` returns."""
        stop = content["to"]
        return cls(
            every=int(content["every"] or 0),
            start=Position.parse(str(content["from"])),
            stop=None if stop is None else Position.parse(str(stop)),
        )
