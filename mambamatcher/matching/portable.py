"""A matcher that can be sent to another process."""

from pathlib import Path

from mambamatcher.matching.matcher import Matcher


class PortableMatcher:
    """Holds a matcher; its copy in another process makes its own from the runtime, on `device` if there is one.

    A `Matcher` cannot be sent itself: its locks and caches belong to one process. With a `cache_folder`, which is made
    when it is needed, both keep encoded images there.
    """

    def __init__(self, matcher: Matcher, device: str | None = None, cache_folder: Path | None = None) -> None:
        self._given: Matcher | None = matcher
        self._matcher: Matcher | None = None
        self._runtime, self._calibration, self._device = matcher.runtime, matcher.calibration, device
        self._cache_folder = cache_folder

    @property
    def matcher(self) -> Matcher:
        """The matcher of this process."""
        if self._matcher is None:
            own = self._given or Matcher(self._runtime.moved(self._device), calibration=self._calibration)
            self._matcher = own if self._cache_folder is None else own.with_cache_folder(self._cache_folder)
        return self._matcher

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_given": None, "_matcher": None}
