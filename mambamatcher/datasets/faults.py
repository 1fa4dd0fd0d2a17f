"""Bad items of a benchmark. Each is reported with its file, and none is dropped silently."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from mambamatcher.errors import InputError

SHOWN = 5
Kind = TypeVar("Kind")
_WORDS: dict[type, str] = {str: "text", list: "a list", dict: "an object"}


class Faults:
    """Bad items found while reading. Reading continues, and the caller decides at the end."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Record an `InputError` of the enclosed item instead of raising it."""
        try:
            yield
        except InputError as error:
            self.messages.append(str(error))

    def settle(self, skip: bool) -> None:
        """Raise an `InputError` if any item was bad, unless bad items are skipped."""
        if not self.messages or skip:
            return
        distinct = list(dict.fromkeys(self.messages))
        more = f"; and {len(distinct) - SHOWN} more" if len(distinct) > SHOWN else ""
        raise InputError(
            f"{len(self.messages)} bad items, nothing was written: {'; '.join(distinct[:SHOWN])}{more}. "
            "Fix them or skip them with --skip-bad."
        )


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Turn errors from malformed content into an `InputError` that names the file, or the position in it."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error
    except KeyError as error:
        raise InputError(f"{path}: the field {error} is missing") from error
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError, csv.Error) as error:
        raise InputError(f"{path}: malformed content ({error})") from error


def check_kind(value: Any, kind: type[Kind], name: str) -> Kind:
    """Return the value if it is of this type, else raise an `InputError`."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be {_WORDS[kind]}, got {value!r:.60}")
    return value


def check_number(value: Any) -> None:
    """Raise an `InputError` unless the value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InputError(f"expected a finite number, got {value!r:.60}")


def check_numbers(values: Any, count: int, name: str) -> None:
    """Raise an `InputError` unless the value is a list of `count` finite numbers."""
    if len(check_kind(values, list, name)) != count:
        raise InputError(f"{name} must hold {count} numbers, got {values!r:.60}")
    for value in values:
        check_number(value)
