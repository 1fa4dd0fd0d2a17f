"""Bad items of a benchmark: each is named with its file, and none is dropped without being counted."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mambamatcher.errors import InputError

SHOWN = 5


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
def naming(path: Path) -> Iterator[None]:
    """Turn whatever malformed content raises into an `InputError` that names the file."""
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
