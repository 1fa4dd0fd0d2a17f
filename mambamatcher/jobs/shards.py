"""Output in parts: each is a file that appears whole, under a name that says which inputs it holds.

So it does not matter who writes a part, or how often it was begun: a run that goes on does the parts that are missing,
nothing is lost and nothing is there twice.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import make_folder, parse_json, remove_files, write_atomically

FOLDER = "parts"
RUN = "_run.json"  # readers of Parquet folders pass over names that begin so
LARGEST = 1000  # inputs a part, which is what a stop can cost each worker
_OURS = re.compile(r"\.?(part-\d+|_run)\b.*")  # with a dot: still being written, or left by a process that was killed
_ABANDONED = 86_400  # seconds after which nobody is writing such a file any more
FEWEST = 128  # parts, where there are inputs enough: workers then end at nearly the same time


@runtime_checkable
class Work(Protocol):
    """What is done to each part; it is sent to the workers, so it must be picklable."""

    @property
    def suffix(self) -> str:
        """How the files it writes end."""
        ...

    def write(self, items: Sequence[Any], path: Path) -> None:
        """Write the results of the items to a file."""
        ...


@dataclass(frozen=True)
class Part:
    """Some of the inputs and where their results go."""

    path: Path
    items: Sequence[Any]

    def check(self, results: int) -> None:
        """See that a file that is there has a result for every input."""
        if results != len(self.items):
            raise InputError(
                f"{self.path} has {results} whole results of {len(self.items)}; remove it, and the same command goes on"
            )

    def attempts(self, since: float) -> int:
        """Count those that were begun and killed: each has left the file it was writing."""
        left = self.path.parent.glob(f".{self.path.stem}-*")
        return sum(path.stat().st_mtime >= since for path in left)

    def complete(self, work: Work) -> None:
        """Do the work and put its file in place in one step."""

        def write(temporary: Path) -> None:
            work.write(self.items, temporary)
            with temporary.open("rb") as file:
                os.fsync(file)  # else a machine that goes down may leave the name of an empty file

        write_atomically(self.path, write, overwrite=True)


def plan(
    out: Path, suffix: str, header: Mapping[str, Any], items: Sequence[Any], names: Sequence[str], overwrite: bool
) -> list[Part]:
    """Cut the inputs into parts under `out`; a folder begun by another run is refused, or emptied to overwrite it.

    How they are cut depends on their number alone, so a run can go on with another number of workers.
    """
    folder = out.absolute() / FOLDER  # workers may run in another folder
    size = min(LARGEST, -(-len(items) // FEWEST))
    described = json.loads(json.dumps({**header, "list of inputs": _digest(names), "number of inputs a part": size}))
    make_folder(folder)
    if overwrite:
        _empty(folder)
    begun = _read(folder / RUN)
    if begun is None:
        if any(folder.glob("part-*")):
            raise InputError(
                f"{folder} holds parts, but not the {RUN} that says of which run; use another folder or overwrite it"
            )
        write_atomically(folder / RUN, lambda path: _write(path, described))
    elif begun != described:
        different = next(key for key in {**begun, **described} if begun.get(key) != described.get(key))
        raise InputError(
            f"{folder} was begun by another run (with another {different}); use another folder or overwrite it"
        )
    remove_files(*(path for path in _ours(folder) if path.name.startswith(".") and _abandoned(path)))
    return [
        Part(folder / f"part-{number:06d}{suffix}", items[start : start + size])
        for number, start in enumerate(range(0, len(items), size))
    ]


def read_lines(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """Yield the lines of parts written as JSON Lines, in the order of the inputs."""
    for part in parts:
        try:
            lines = [parse_json(line) for line in part.path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError):
            lines = []
        part.check(sum(isinstance(line, dict) for line in lines))
        yield from lines


def write_lines(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    """Write JSON Lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _empty(folder: Path) -> None:
    """Remove all that a run wrote; what says which run it was goes last, so that the next one notices a stop."""
    others = set(folder.iterdir()) - set(_ours(folder))
    if others:
        raise InputError(f"{min(others)} is not this program's, so {folder} cannot be overwritten; use another folder")
    remove_files(*sorted(_ours(folder), key=lambda path: path.name == RUN))


def _ours(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _OURS.fullmatch(path.name)]


def _abandoned(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _ABANDONED
    except FileNotFoundError:  # whoever wrote it has put it in place
        return False


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} was not written by this program: {error}") from error
    return content if isinstance(content, dict) else {}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _digest(names: Sequence[str]) -> str:
    return sha256("\n".join(names).encode("utf-8", "surrogateescape")).hexdigest()
