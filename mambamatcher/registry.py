"""Registries of named choices. Each row of the paper's ablation tables is an entry of one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Generic, TypeVar

from mambamatcher.errors import ConfigError

Entry = TypeVar("Entry")


def unknown(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return an error that suggests the closest known name and lists all of them.

    Example:
        >>> print(unknown("scan order", "decending", ["ascending", "descending"]))
        unknown scan order 'decending'. Did you mean 'descending'? Known: ascending, descending.
    """
    known = sorted(known)
    guess = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean {guess[0]!r}?" if guess else ""
    return ConfigError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(map(_in_line, known))}.")


def _in_line(name: str) -> str:
    return name if name.isprintable() else repr(name)


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A read-only mapping from names to functions or classes, filled by a decorator.

    Looking up an unknown name raises a ConfigError that suggests the closest known one.

    Args:
        kind: What the entries are, for error messages.

    Example:
        >>> norms = Registry("norm")
        >>> @norms.register("l1")
        ... def l1(values):
        ...     return sum(abs(value) for value in values)
        >>> norms["l1"]([3, -4])
        7
        >>> list(norms)
        ['l1']
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """Return a decorator that registers a function or class under `name`."""

        def add(entry: Entry) -> Entry:
            if name in self._entries:
                raise ConfigError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return add

    def name_of(self, entry: Entry) -> str:
        """Return the name under which an entry was registered."""
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
