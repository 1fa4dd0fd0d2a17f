"""Named choices: a row of one of the paper's tables is an entry of a registry."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Generic, TypeVar

from mambamatcher.errors import ConfigError

Entry = TypeVar("Entry")


def unknown(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """Say that `name` is unknown, what was probably meant and what there is."""
    known = sorted(known)
    guess = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean {guess[0]!r}?" if guess else ""
    return ConfigError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(known)}.")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A read-only mapping filled by decorators; an unknown name says what was meant."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """Add the decorated function or class under `name`."""

        def add(entry: Entry) -> Entry:
            if name in self._entries:
                raise ConfigError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return add

    def name_of(self, entry: Entry) -> str:
        """Return the name an entry was registered under."""
        return next(name for name, known in self._entries.items() if known is entry)

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
