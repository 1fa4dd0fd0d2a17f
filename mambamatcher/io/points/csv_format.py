"""Points as CSV: a header with `x` and `y`, and any of `image`, `name`, `visibility`, `confidence`; or two columns."""

import csv
import io
from collections import defaultdict
from collections.abc import Mapping

from mambamatcher.errors import InputError
from mambamatcher.io.points.point_set import PointSet, make_points


def from_csv(text: str) -> dict[str | None, PointSet]:
    """Return the points of each image; None stands for an image that is not named."""
    rows = [row for row in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in row)]
    if not rows:
        return {}
    header = [cell.strip().lower() for cell in rows[0]]
    if "x" in header and "y" in header:
        rows = rows[1:]
    else:
        header = ["x", "y"]
        if any(len(row) != 2 for row in rows):
            raise InputError("a CSV of points needs a header with x and y, or just two columns")
    grouped: dict[str | None, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        cells = dict(zip(header, (cell.strip() for cell in row), strict=True))
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
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["image", "name", "x", "y", "visibility", "confidence"])
    for image, each in annotations.items():
        confidence = [""] * len(each.names) if each.confidence is None else each.confidence.round(4).tolist()
        for name, (x, y), seen, sure in zip(
            each.names, each.points.round(3).tolist(), each.visibility.tolist(), confidence, strict=True
        ):
            writer.writerow([image, name, x, y, seen, sure])
    return buffer.getvalue()
