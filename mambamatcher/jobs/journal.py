"""A file of results that any kill leaves whole: a header line, then one JSON line for each item done.

A line is written at once and handed to the operating system before the next item begins; a torn last line is dropped
when the file is opened again. So a run goes on where it stopped, nothing is lost and nothing is there twice.
"""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import append_line, open_lines, parse_json


class Journal:
    """An open file of results to add to; items it already holds are in `done`, by their `key`."""

    def __init__(self, path: str | PathLike[str], header: Mapping[str, Any], key: str, overwrite: bool = False) -> None:
        path = Path(path)
        header = json.loads(json.dumps(header))  # as it will be read back
        self.key = key
        self.done: dict[str, dict[str, Any]] = {}
        begun = read_journal(path, json.dumps(header)) if path.is_file() and not overwrite else None
        if begun is not None and begun[0] is not None:
            if difference := _difference(begun[0], header):
                raise InputError(f"{path} was begun by another run ({difference}); use another folder or overwrite it")
            for number, line in enumerate(begun[1], start=2):
                if not isinstance(line.get(key), str):
                    raise InputError(f"{path}: line {number} names no {key}; it was not written by this program")
            self.done = {line[key]: line for line in begun[1]}
            self._file = open_lines(path, keep=begun[2])
        else:
            self._file = open_lines(path)
            append_line(self._file, header)

    def add(self, line: dict[str, Any]) -> None:
        """Append one item."""
        append_line(self._file, line)
        self.done[line[self.key]] = line

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


def read_journal(path: Path, first: str) -> tuple[dict[str, Any] | None, list[dict[str, Any]], int]:
    """Return the header (None if only the beginning of `first` was written), the items, and the bytes they take."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    lines = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            lines.append(parse_json(line))
        except ValueError as error:
            raise InputError(
                f"{path}: line {number} is not JSON ({error}); it was not written by this program"
            ) from error
        if not isinstance(lines[-1], dict):
            raise InputError(f"{path}: line {number} is no result; it was not written by this program")
    if not lines:
        if not first.encode().startswith(content):
            raise InputError(f"{path} was not written by this program; use another folder or overwrite it")
        return None, [], 0
    return lines[0], lines[1:], len(whole)


def _difference(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Name the first entry that differs."""
    different = [name for name in {**there, **wanted} if there.get(name) != wanted.get(name)]
    return f"with another {different[0]}" if different else None
