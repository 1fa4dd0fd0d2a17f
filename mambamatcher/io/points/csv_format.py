"""Points as CSV: a header with `x` and `y`, and any of `image`, `name`, `visibility`, `confidence`; or two columns.

A name that a spreadsheet would take for a formula is written with an apostrophe before it, and read without it.
"""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from mambamatcher.errors import InputError
from mambamatcher.io.points.point_set import PointSet, make_points

# what a spreadsheet may take for a formula, with any number of apostrophes before it; a number is not one
_FORMULA = re.compile(r"(?!-?\d+(\.\d+)?\Z)'*(\s*[=+\-@]|[\t\r])")


def from_csv(text: str) -> dict[str | None, PointSet]:
    """Return the points of each image; None stands for an image that is not named."""
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if any(cell.strip() for cell in row)]
    if not rows:
        return {}
    header = [cell.strip().lower() for cell in rows[0]]
    if "x" in header and "y" in header:
        repeated = [name for name, count in Counter(filter(None, header)).items() if count > 1]
        if repeated:
            raise InputError(f"the column {repeated[0]!r} appears more than once")
        is_padded = any(cell != cell.strip() for cell in rows[0])  # "x, y": then spaces are not of the names either
        rows = rows[1:]
    else:
        header, is_padded = ["x", "y"], True
        if any(len(row) != 2 for row in rows):
            raise InputError("a CSV of points needs a header with x and y, or just two columns")
    grouped: dict[str | None, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        cells = dict(zip(header, (_unmasked(cell.strip() if is_padded else cell) for cell in row), strict=True))
        grouped[cells.get("image") or None].append(cells)
    return {
        image: make_points(
            [(float(cells["x"]), float(cells["y"])) for cells in entries],
            [cells["name"] for cells in entries] if "name" in header else None,
            [int(cells["visibility"]) for cells in entries] if "visibility" in header else None,
        )
        for image, entries in grouped.items()
    }


def to_csv(annotations: Mapping[str, PointSet]) -> str:
    """Return one line per point."""
    lines = [_line(["image", "name", "x", "y", "visibility", "confidence"])]
    for image, each in annotations.items():
        confidence = [""] * len(each.names) if each.confidence is None else each.confidence.round(4).tolist()
        for name, (x, y), seen, sure in zip(
            each.names, each.points.round(3).tolist(), each.visibility.tolist(), confidence, strict=True
        ):
            lines.append(_line([masked(image), masked(name), x, y, seen, sure]))
    return "".join(lines)


def _line(cells: Sequence[object]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerow(cells)  # quotes cells that hold either character
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def masked(text: str) -> str:
    """Return text with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _unmasked(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell
