"""Points on pictures, and the files they come from and go to.

JSON  `[[x, y], ...]`, or `{"points": [[x, y], ...], "names": [...], "visibility": [...]}`, or several pictures as
      `{"images": {"a.jpg": {"points": ...}, ...}}`
CSV   a header with `x` and `y`, and any of `image`, `name`, `visibility`, `confidence`; or two bare columns
COCO  keypoints: `images`, `annotations` and `categories`, written where a file's name ends in `.coco.json`

Coordinates are continuous pixels of the upright picture, (0, 0) its upper left corner.
"""

import csv
import io
import json
import reprlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import write_atomically

ABSENT, HIDDEN, VISIBLE = 0, 1, 2  # as COCO counts; the place of an absent point means nothing
COCO_SUFFIX = ".coco.json"

# what content of another shape than expected raises
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, csv.Error)

Pixels = Float[np.ndarray, "keypoint 2"]
Size = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class PointSet:
    """The named points of one picture, in its pixels; `size` is the picture's, where it is known."""

    points: Pixels
    names: tuple[str, ...]
    visibility: Int[np.ndarray, " keypoint"]
    confidence: Float[np.ndarray, " keypoint"] | None = None
    size: Size | None = None

    def __post_init__(self) -> None:
        if not len(self.points) == len(self.names) == len(self.visibility):
            raise InputError(
                f"{len(self.points)} points have {len(self.names)} names and {len(self.visibility)} visibilities"
            )
        repeated = [name for name, following in pairwise(sorted(self.names)) if name == following]
        if repeated:
            raise InputError(f"two points of one picture are named {repeated[0]!r}")

    def visible(self) -> "PointSet":
        """Return the points that can be seen: those that can be matched."""
        kept = np.flatnonzero(self.visibility == VISIBLE)
        return PointSet(
            points=self.points[kept],
            names=tuple(self.names[index] for index in kept),
            visibility=self.visibility[kept],
            confidence=None if self.confidence is None else self.confidence[kept],
            size=self.size,
        )


def make_points(points: ArrayLike, names: Sequence[str] | None = None, visibility: ArrayLike | None = None) -> PointSet:
    """Put points together; unnamed ones are called by their number from 1, and all are visible if nothing is said."""
    array = as_points(points)
    seen = np.full(len(array), VISIBLE) if visibility is None else np.asarray(visibility)
    if seen.dtype == bool:
        seen = np.where(seen, VISIBLE, ABSENT)
    if seen.ndim != 1 or not np.isin(seen, (ABSENT, HIDDEN, VISIBLE)).all():
        raise InputError(
            f"visibility is 0 (absent), 1 (hidden) or 2 (visible) for each point, got {reprlib.repr(seen.tolist())}"
        )
    labels = tuple(map(str, range(1, len(array) + 1))) if names is None else tuple(map(str, names))
    return PointSet(points=array, names=labels, visibility=seen.astype(np.int64))


def as_points(points: ArrayLike) -> Pixels:
    """Return a list of (x, y) as an array, or say what is wrong with it."""
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"points must be a list of (x, y) numbers, got {reprlib.repr(points)}") from error
    if array.size == 0:
        raise InputError("the list of points is empty; give at least one (x, y)")
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"points must be a list of (x, y) pairs, got an array of shape {array.shape}")
    return array


def check_points(points: ArrayLike, size: Size) -> Pixels:
    """Return points as an array, or say which one does not lie in a picture of that `(width, height)`."""
    array = as_points(points)
    inside = np.isfinite(array).all(axis=1) & (array >= 0).all(axis=1) & (array <= np.array(size)).all(axis=1)
    if not inside.all():
        index = int(np.argmin(inside))
        x, y = array[index]
        raise InputError(
            f"point {index + 1}, ({x:g}, {y:g}), lies outside the source image of {size[0]}x{size[1]} pixels"
        )
    return array


def read_points(path: str | PathLike[str], image: str | PathLike[str] | None = None) -> PointSet:
    """Read the points of one picture; a file that holds several is asked for `image` by its file name."""
    found = read_annotations(path)
    if len(found) == 1 and (image is None or None in found):
        return next(iter(found.values()))
    if image is None:
        raise InputError(f"{path} holds points of {len(found)} pictures; say which one is meant")
    wanted = Path(image)
    for name in (str(image), wanted.name):
        if name in found:
            return found[name]
    by_name = [points for key, points in found.items() if key is not None and Path(key).name == wanted.name]
    if len(by_name) == 1:
        return by_name[0]
    known = ", ".join(sorted(str(key) for key in found if key is not None)[:5])
    raise InputError(f"{path} has no points for {wanted.name}; it has them for: {known}")


def read_annotations(path: str | PathLike[str]) -> dict[str | None, PointSet]:
    """Read all points of a file by picture; a file that does not name its picture has it under None."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read points from {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read points from {path}: it is not text") from error
    try:
        found = _from_csv(text) if path.suffix.lower() == ".csv" else _from_json(text)
        _check_names(found)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except _MALFORMED as error:
        form = "CSV with columns x and y" if path.suffix.lower() == ".csv" else 'JSON like {"points": [[x, y], ...]}'
        raise InputError(f"{path} must be {form}, or COCO keypoints: {error!r}") from error
    if not found:
        raise InputError(f"{path} holds no points")
    return found


def _check_names(found: Mapping[str | None, PointSet]) -> None:
    """Refuse names that could not be written again: not text, or half a character."""
    for image, each in found.items():
        for name in ("" if image is None else image, *each.names):
            name.encode("utf-8", "surrogateescape")


def _from_json(text: str) -> dict[str | None, PointSet]:
    content = json.loads(text)
    if isinstance(content, list):
        return {None: make_points(content)}
    if "annotations" in content:
        return _from_coco(content)
    if "images" in content:
        return {name: _from_entry(entry) for name, entry in content["images"].items()}
    return {None: _from_entry(content)}


def _from_entry(entry: Mapping[str, Any]) -> PointSet:
    return make_points(entry["points"], entry.get("names"), entry.get("visibility"))


def _from_coco(content: Mapping[str, Any]) -> dict[str | None, PointSet]:
    images = {image["id"]: image for image in content["images"]}
    names = {category["id"]: category.get("keypoints") for category in content.get("categories", [])}
    found: dict[str | None, PointSet] = {}
    for annotation in content["annotations"]:
        image = images[annotation["image_id"]]
        if image["file_name"] in found:
            raise InputError(f"{image['file_name']} has several annotated objects; keep the one whose points to use")
        triples = np.asarray(annotation["keypoints"], dtype=np.float64).reshape(-1, 3)
        found[image["file_name"]] = make_points(
            triples[:, :2], names.get(annotation.get("category_id")), triples[:, 2].astype(np.int64)
        )
    return found


def _from_csv(text: str) -> dict[str | None, PointSet]:
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


def check_format(path: str | PathLike[str]) -> None:
    """Refuse a name whose ending says no format for points."""
    if not str(path).lower().endswith((".json", ".csv")):
        raise InputError(f"cannot tell the format for points of {path}; use an ending .json, .csv or {COCO_SUFFIX}")


def write_points(path: str | PathLike[str], annotations: Mapping[str, PointSet], overwrite: bool = False) -> None:
    """Write points by picture; the name's ending says the format: .csv, .coco.json or .json."""
    check_format(path)
    path = Path(path)
    if path.name.lower().endswith(COCO_SUFFIX):
        text = json.dumps(to_coco(annotations), indent=1) + "\n"
    elif path.suffix.lower() == ".csv":
        text = to_csv(annotations)
    else:
        text = json.dumps({"images": {name: _entry(each) for name, each in annotations.items()}}, indent=1) + "\n"

    def write(temporary: Path) -> None:
        # file names that are not UTF-8 are written as the bytes they are
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")

    write_atomically(path, write, overwrite)


def _entry(points: PointSet) -> dict[str, Any]:
    confidence = {} if points.confidence is None else {"confidence": points.confidence.round(4).tolist()}
    return {
        "points": points.points.round(3).tolist(),
        "names": list(points.names),
        "visibility": points.visibility.tolist(),
        **confidence,
    }


def to_csv(annotations: Mapping[str, PointSet]) -> str:
    """Return one line a point."""
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


def to_coco(annotations: Mapping[str, PointSet], category: str = "object") -> dict[str, Any]:
    """Return COCO keypoints: one category with all names, one object a picture.

    As COCO has it, a point of visibility 0 is written (0, 0, 0). The box is the one around the other points;
    `keypoint_scores`, an addition of ours that readers of COCO skip, are the confidences.
    """
    names = list(dict.fromkeys(name for each in annotations.values() for name in each.names))
    images, objects = [], []
    for number, (image, each) in enumerate(annotations.items(), start=1):
        size = {} if each.size is None else {"width": each.size[0], "height": each.size[1]}
        images.append({"id": number, "file_name": image, **size})
        objects.append({"id": number, "image_id": number, "category_id": 1, **_coco_object(each, names)})
    categories = [{"id": 1, "name": category, "keypoints": names, "skeleton": []}]
    return {"images": images, "annotations": objects, "categories": categories}


def _coco_object(points: PointSet, names: Sequence[str]) -> dict[str, Any]:
    rows = {name: index for index, name in enumerate(points.names) if points.visibility[index] != ABSENT}
    triples = [
        (*points.points[rows[n]].round(3).tolist(), int(points.visibility[rows[n]])) if n in rows else (0, 0, 0)
        for n in names
    ]
    labelled = points.points[list(rows.values())]
    left, top = labelled.min(axis=0) if rows else (0.0, 0.0)
    right, bottom = labelled.max(axis=0) if rows else (0.0, 0.0)
    content: dict[str, Any] = {
        "keypoints": [value for triple in triples for value in triple],
        "num_keypoints": len(rows),
        "bbox": [round(float(value), 3) for value in (left, top, right - left, bottom - top)],
        "area": round(float((right - left) * (bottom - top)), 3),
        "iscrowd": 0,
    }
    if points.confidence is not None:
        scores = dict(zip(points.names, points.confidence.round(4).tolist(), strict=True))
        content["keypoint_scores"] = [scores.get(name, 0.0) for name in names]
    return content
