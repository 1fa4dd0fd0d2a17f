"""A matcher that can be sent to another process."""

from mambamatcher.matching.matcher import Matcher


class PortableMatcher:
    """Holds a matcher; its copy in another process makes its own from the runtime, on `device` if there is one.

    A `Matcher` cannot be sent itself: its locks and caches belong to one process.
    """

    def __init__(self, matcher: Matcher, device: str | None = None) -> None:
        self._matcher: Matcher | None = matcher
        self._runtime, self._calibration, self._device = matcher.runtime, matcher.calibration, device

    @property
    def matcher(self) -> Matcher:
        """The matcher of this process."""
        if self._matcher is None:
            self._matcher = Matcher(self._runtime.moved(self._device), calibration=self._calibration)
        return self._matcher

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_matcher": None}
