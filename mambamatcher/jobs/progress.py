"""Progress of a long loop on standard error: a bar on a terminal, elsewhere a plain line now and then."""

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

from rich.console import Console
from rich.progress import track as rich_track

Item = TypeVar("Item")

_SECONDS = 10.0  # between plain lines


def track(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Yield the items and report how many of them are done."""
    if sys.stderr.isatty():
        yield from rich_track(items, description=label, total=total, console=Console(stderr=True))
        return
    reported = monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        if done == total or monotonic() - reported >= _SECONDS:
            reported = monotonic()
            sys.stderr.write(f"{label}: {done} of {total}\n")
