"""The journal of a run: a header line, then one JSON line for each input that is done.

Each line is handed to the operating system before the next one is written. A truncated last line, as a kill or a full
disk leaves it, is dropped when the file is opened again. So a run resumes where it stopped: no result is lost and none
is there twice.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import append_line, make_folder, open_lines, parse_json, remove_files, write_atomically

Result = dict[str, Any]

_QUOTED = 120  # characters; a longer difference between two headers is named, but not quoted


class Journal:
    """An open journal; `results` holds what is done, by the name of its input.

    The file is locked while it is open, so two runs cannot write the same one.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        key: str,
        overwrite: bool = False,
        products: Sequence[Path] = (),
    ) -> None:
        """Open a journal to add to, or begin one.

        Args:
            path: The file; its folder is created.
            header: What the results depend on.
            key: The entry of a result that names its input.
            overwrite: Begin again, whatever the file holds, and remove the products.
            products: Files made of the results. Where they are without a journal, they are the user's own.

        Raises:
            InputError: The file has another header or is not a journal, products are the user's own, or another
                process is writing the file.
        """
        if not overwrite and not path.exists():
            for product in products:
                if product.exists():
                    raise InputError(f"{product} exists already; choose another folder or ask to overwrite it")
        make_folder(path.parent)
        self.path, self.key = path, key
        self.header: dict[str, Any] = json.loads(json.dumps(header))  # as it is read back
        self._file = open_lines(path)
        try:
            if overwrite:
                remove_files(*products)  # first, so that none is left beside a journal it was not made of
            lines, size = ([], 0) if overwrite else self._read()
            self._file.truncate(size)
            if not size:
                append_line(self._file, self.header)
        except BaseException:
            self._file.close()
            raise
        self.results: dict[str, Result] = {line[key]: line for line in lines}
        self._order = [line[key] for line in lines]

    def add(self, result: Result) -> None:
        """Append the result of one input."""
        append_line(self._file, result)
        self.results[result[self.key]] = result
        self._order.append(result[self.key])

    def drop(self, names: Iterable[str]) -> None:
        """Drop results that no longer count; their lines go when the journal is sorted."""
        for name in names:
            del self.results[name]

    def sort(self, names: Sequence[str]) -> None:
        """Put the lines into the order of the inputs; nothing can be added afterwards.

        Workers finish in any order. The file is then replaced in one step, so that it does not depend on them.
        """
        ordered = list(dict.fromkeys([*names, *self.results]))
        if ordered == self._order:
            return
        lines = [self.header, *(self.results[name] for name in ordered)]
        replaced = self._file

        def write(temporary: Path) -> None:
            write_lines(temporary, lines)
            self._file = open_lines(temporary)  # locked before it takes the journal's place, so the lock never lapses

        write_atomically(self.path, write, overwrite=True)
        replaced.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def _read(self) -> tuple[list[Result], int]:
        """Return the results and the number of bytes that are whole; 0 where there is no whole header."""
        self._file.seek(0)
        content = self._file.readall()
        whole = content[: content.rfind(b"\n") + 1]
        lines = [self._parse(number, line) for number, line in enumerate(whole.split(b"\n")[:-1], start=1)]
        if not lines:
            if not json.dumps(self.header).encode().startswith(content):
                raise InputError(f"{self.path} was not written by this program; use another folder or overwrite it")
            return [], 0
        if difference := _difference(lines[0], self.header):
            raise InputError(
                f"{self.path} was started by another run ({difference}); use another folder or overwrite it"
            )
        for number, line in enumerate(lines[1:], start=2):
            if not isinstance(line.get(self.key), str):
                raise InputError(f"{self.path}: line {number} has no {self.key}; it was not written by this program")
        return lines[1:], len(whole)

    def _parse(self, number: int, line: bytes) -> Result:
        try:
            content = parse_json(line)
        except ValueError as error:
            raise InputError(
                f"{self.path}: line {number} is not JSON ({error}); it was not written by this program"
            ) from error
        if not isinstance(content, dict):
            raise InputError(f"{self.path}: line {number} is not a result; it was not written by this program")
        return content


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON Lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _difference(there: Mapping[str, Any], wanted: Mapping[str, Any], within: str = "") -> str | None:
    """Describe the first value that differs, inside nested mappings too."""
    for key in {**there, **wanted}:
        old, new = there.get(key), wanted.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if nested := _difference(old, new, f"{within}{key}."):
                return nested
        elif old != new:
            quoted = f"{within}{key} was {old!r}, now {new!r}"
            return quoted if len(quoted) <= _QUOTED else f"with another {within}{key}"
    return None
