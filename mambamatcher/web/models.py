"""The models a server offers, by name: a client chooses among them and never names a file."""

from collections.abc import Callable, Mapping
from threading import Lock

from mambamatcher.matching.matcher import Matcher
from mambamatcher.registry import unknown


class Models:
    """Matchers loaded when first asked for; the first is the default."""

    def __init__(self, loaders: Mapping[str, Callable[[], Matcher]]) -> None:
        self._loaders = dict(loaders)
        self._loaded: dict[str, Matcher] = {}
        self._loading = Lock()

    @property
    def names(self) -> list[str]:
        """All names, the default first."""
        return list(self._loaders)

    def check(self, name: str | None) -> str:
        """Return the name of a model there is."""
        if name is not None and name not in self._loaders:
            raise unknown("model", name, self._loaders)
        return name or self.names[0]

    def get(self, name: str) -> Matcher:
        """Return a matcher, loaded now if it was not before."""
        with self._loading:
            if name not in self._loaded:
                self._loaded[name] = self._loaders[name]()
            return self._loaded[name]

    def forget_pictures(self) -> None:
        """Drop what the matchers remember of pictures they have seen."""
        for matcher in self._loaded.copy().values():
            matcher.clear_cache()
