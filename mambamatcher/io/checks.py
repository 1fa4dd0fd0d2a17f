"""Checks of content that was read from a file, each with a message that names the field."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from mambamatcher.errors import InputError

Kind = TypeVar("Kind")
_WORDS: dict[type, str] = {str: "text", list: "a list", dict: "an object"}


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


def first_line(error: Exception) -> str:
    """Return what an error of another library says, as a part of one sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
