"""Bad items of a benchmark. Each is reported with its file, and none is dropped silently."""

from collections.abc import Iterator
from contextlib import contextmanager

from mambamatcher.errors import InputError
from mambamatcher.io.checks import check_kind, check_number, check_numbers, naming

__all__ = ["Faults", "check_kind", "check_number", "check_numbers", "naming"]

SHOWN = 5


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
