"""Bad items of a benchmark: each is named with its file, and none is dropped without being counted."""

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
    """The bad items met while reading; the reader goes on, and the caller decides at the end."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Note an `InputError` of the enclosed item and go on with the next one."""
        try:
            yield
        except InputError as error:
            self.messages.append(str(error))

    def settle(self, skip: bool) -> None:
        """Raise if anything was bad, unless bad items are to be skipped."""
        if not self.messages or skip:
            return
        distinct = list(dict.fromkeys(self.messages))
        more = f"; and {len(distinct) - SHOWN} more" if len(distinct) > SHOWN else ""
        raise InputError(
            f"{len(self.messages)} bad items, nothing was written: {'; '.join(distinct[:SHOWN])}{more}. "
            "Mend them or leave them out with --skip-bad."
        )


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Turn whatever malformed content raises into an `InputError` that names the file, or the place in it."""
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
    """Return a value that is of this kind, and refuse any other."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be {_WORDS[kind]}, got {value!r:.60}")
    return value


def check_number(value: Any) -> None:
    """Refuse what is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InputError(f"expected a finite number, got {value!r:.60}")


def check_numbers(values: Any, count: int, name: str) -> None:
    """Refuse what is not a list of so many finite numbers."""
    if len(check_kind(values, list, name)) != count:
        raise InputError(f"{name} must hold {count} numbers, got {values!r:.60}")
    for value in values:
        check_number(value)
