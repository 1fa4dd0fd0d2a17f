"""Files of points: the format of a file follows from its name and content."""

import csv
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import parse_json, write_text_atomically
from mambamatcher.io.points.coco_format import from_coco, to_coco
from mambamatcher.io.points.csv_format import from_csv, to_csv
from mambamatcher.io.points.json_format import from_json, to_json
from mambamatcher.io.points.point_set import PointSet

COCO_SUFFIX = ".coco.json"

# what content of another shape than expected raises
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, csv.Error)


def read_points(path: str | PathLike[str], image: str | PathLike[str] | None = None) -> PointSet:
    """Read the points of one image.

    Args:
        path: The file of points.
        image: Whose points to read from a file that holds several images'; it is found by its file name.

    Raises:
        InputError: The file is missing or malformed, or has no points of that image.
    """
    found = read_annotations(path)
    if len(found) == 1 and (image is None or None in found):
        return next(iter(found.values()))
    if image is None:
        raise InputError(f"{path} holds points of {len(found)} images; name one of them")
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
    """Read all points of a file by image; None stands for an image that is not named."""
    path = Path(path)
    is_csv = path.suffix.lower() == ".csv"
    try:
        # as it is written: with its own ends of lines, and names of files that are not UTF-8
        text = path.read_bytes().decode("utf-8-sig", "surrogateescape" if is_csv else "strict")
    except OSError as error:
        raise InputError(f"cannot read points from {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read points from {path}: it is not text") from error
    if "\0" in text:
        raise InputError(f"cannot read points from {path}: it is not text")
    try:
        found = from_csv(text) if is_csv else _from_json_or_coco(text)
        _check_names(found)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except _MALFORMED as error:
        form = "CSV with columns x and y" if is_csv else 'JSON like {"points": [[x, y], ...]}'
        raise InputError(f"{path} must be {form}, or COCO keypoints: {error!r}") from error
    if not found:
        raise InputError(f"{path} holds no points")
    return found


def _from_json_or_coco(text: str) -> dict[str | None, PointSet]:
    content = parse_json(text)
    return from_coco(content) if not isinstance(content, list) and "annotations" in content else from_json(content)


def _check_names(found: Mapping[str | None, PointSet]) -> None:
    """Refuse names that could not be written again: not text, or with unpaired surrogates."""
    for image, each in found.items():
        for name in ("" if image is None else image, *each.names):
            name.encode("utf-8", "surrogateescape")


def check_format(path: str | PathLike[str]) -> None:
    """Refuse a file name whose suffix is no format of points."""
    if not str(path).lower().endswith((".json", ".csv")):
        raise InputError(f"cannot tell the format for points of {path}; use the suffix .json, .csv or {COCO_SUFFIX}")


def write_points(path: str | PathLike[str], annotations: Mapping[str, PointSet], overwrite: bool = False) -> None:
    """Write points by image; the suffix of the name chooses the format: .csv, .coco.json or .json."""
    # file names that are not UTF-8 are written as the bytes they are
    write_text_atomically(Path(path), format_points(path, annotations), overwrite, errors="surrogateescape")


def format_points(path: str | PathLike[str], annotations: Mapping[str, PointSet]) -> str:
    """Return the text of a file of points by image; the suffix of the name chooses the format."""
    check_format(path)
    if str(path).lower().endswith(COCO_SUFFIX):
        return json.dumps(to_coco(annotations), indent=1) + "\n"
    if str(path).lower().endswith(".csv"):
        return to_csv(annotations)
    return json.dumps(to_json(annotations), indent=1) + "\n"
