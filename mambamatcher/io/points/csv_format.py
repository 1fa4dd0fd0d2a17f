"""Points as CSV: a header with `x` and `y`, or two columns.

The header may also have `image`, `object` (the number of the object in its image), `category`, `name`, `visibility` and
`confidence`. A name that a spreadsheet would take for a formula is written with an apostrophe before it, and read
without it.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from sys import intern
from typing import TypeAlias

from mambamatcher.errors import InputError
from mambamatcher.io.checks import naming
from mambamatcher.io.points.annotations import Annotations, Settings, as_annotations
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.point_set import PointSet, make_points

# what a spreadsheet may take for a formula, with any number of apostrophes before it; a number is not one
_FORMULA = re.compile(r"(?!-?\d+(\.\d+)?\Z)'*(\s*[=+\-@]|[\t\r])")


_Key: TypeAlias = tuple[str | None, str, str | None]  # image, number of the object in it, and category


@dataclass
class _Columns:
    """The points of one object as they are collected."""

    points: list[tuple[float, float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    visibility: list[int] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)


def read_csv(path: Path) -> Annotations:
    """Return the objects of each image; None stands for an image that is not named."""
    with open_text(path) as file:
        return from_csv(text_lines(file))


def open_text(path: Path) -> io.TextIOWrapper:
    """Open a CSV file as it is written: with its own ends of lines, and names of files that are not UTF-8."""
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def text_lines(file: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file that is text."""
    for line in file:
        if "\0" in line:
            raise InputError("it is not text")
        yield line


def from_csv(lines: Iterable[str]) -> Annotations:
    """Return the objects of each image; None stands for an image that is not named."""
    reader = csv.reader(lines)
    rows: Iterator[list[str]] = (row for row in reader if any(cell.strip() for cell in row))
    first = next(rows, None)
    if first is None:
        return Annotations(images={})
    header = [cell.strip().lower() for cell in first]
    if "x" in header and "y" in header:
        repeated = [name for name, count in Counter(filter(None, header)).items() if count > 1]
        if repeated:
            raise InputError(f"the column {repeated[0]!r} appears more than once")
        is_padded = any(cell != cell.strip() for cell in first)  # "x, y": then spaces are not of the names either
    else:
        header, is_padded = ["x", "y"], True
        rows = _pairs([first], rows)
    try:
        objects = _collect(rows, header, is_padded)
    except (LookupError, ValueError):
        with naming(f"line {reader.line_num}"):
            raise
    return _from_columns(objects, header)


def _pairs(first: list[list[str]], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    for rows in (first, rest):
        for row in rows:
            if len(row) != 2:
                raise InputError("a CSV of points needs a header with x and y, or just two columns")
            yield row


def _collect(rows: Iterator[list[str]], header: Sequence[str], is_padded: bool) -> dict[_Key, _Columns]:
    objects: dict[_Key, _Columns] = {}
    named, seen, scored = ("name" in header, "visibility" in header, "confidence" in header)
    for row in rows:
        if len(row) != len(header):
            raise InputError(f"it has {len(row)} cells, and the header {len(header)}")
        cells = dict(zip(header, (unmasked(cell.strip() if is_padded else cell) for cell in row), strict=True))
        key = (cells.get("image") or None, cells.get("object", ""), cells.get("category") or None)
        columns = objects.setdefault(key, _Columns())
        columns.points.append((float(cells["x"]), float(cells["y"])))
        if named:
            columns.names.append(intern(cells["name"]))
        if seen:
            columns.visibility.append(int(cells["visibility"]))
        if scored:
            columns.confidence.append(float(cells["confidence"].strip() or "nan"))
    return objects


def _from_columns(objects: dict[_Key, _Columns], header: Sequence[str]) -> Annotations:
    """Return the objects of each image; `objects` is emptied, so that a large file is not twice in memory."""
    named, seen, scored = ("name" in header, "visibility" in header, "confidence" in header)
    images: dict[str | None, list[PointSet]] = {}
    for image, number, category in list(objects):
        columns = objects.pop((image, number, category))
        with naming(image or "its points"):
            found = make_points(
                columns.points,
                columns.names if named else None,
                columns.visibility if seen else None,
                columns.confidence if scored and not any(map(isnan, columns.confidence)) else None,
                category=category,
            )
        images.setdefault(image, []).append(found)
    return Annotations(images=images)


def to_csv(annotations: Annotations | Mapping[str, PointSet]) -> str:
    """Return one line per point."""
    buffer = io.StringIO(newline="")
    _write(buffer, as_annotations(annotations))
    return buffer.getvalue()


def write_csv(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write one line per point."""
    with create_text(path) as file:
        _write(file, annotations)


def create_text(path: Path) -> io.TextIOWrapper:
    """Open a new file as text; file names that are not UTF-8 are written as the bytes they are."""
    return path.open("w", encoding="utf-8", errors="surrogateescape", newline="")


class LineWriter:
    """Writes rows of CSV that end in a line feed; cells that hold one, or a carriage return, are quoted."""

    def __init__(self, file: io.TextIOBase) -> None:
        self._file = file
        self.row = csv.writer(self, lineterminator="\r\n").writerow

    def write(self, line: str) -> None:
        """Take one row from the writer of the standard library."""
        self._file.write(line.removesuffix("\r\n") + "\n")


def _write(file: io.TextIOBase, annotations: Annotations) -> None:
    has_objects = annotations.has_several
    has_categories = any(each.category is not None for each in annotations.objects())
    row = LineWriter(file).row
    row(
        [
            "image",
            *(["object"] if has_objects else []),
            *(["category"] if has_categories else []),
            *("name", "x", "y", "visibility", "confidence"),
        ]
    )
    for image, objects in annotations.images.items():
        for number, each in enumerate(objects, start=1):
            before = [
                masked(image or ""),
                *([number] if has_objects else []),
                *([masked(each.category or "")] if has_categories else []),
            ]
            confidence = [""] * len(each.names) if each.confidence is None else each.confidence.round(4).tolist()
            for name, (x, y), seen, sure in zip(
                each.names, each.points.round(3).tolist(), each.visibility.tolist(), confidence, strict=True
            ):
                row([*before, masked(name), x, y, seen, sure])


def masked(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def unmasked(cell: str) -> str:
    """Return the text of a cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


FORMATS.register("csv")(Format(title="CSV", file="points.csv", read=read_csv, write=write_csv))
