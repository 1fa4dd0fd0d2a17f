"""Files of points: the format is recognised by the content when reading, and chosen by name when writing."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from mambamatcher.errors import InputError
from mambamatcher.extras import require
from mambamatcher.io.atomic import move_files, parse_json, refuse_existing, write_atomically
from mambamatcher.io.points.annotations import Annotations, Settings, as_annotations, one_per_image
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.point_set import PointSet

COCO_SUFFIX = ".coco.json"
SUFFIXES = {".csv": "csv", COCO_SUFFIX: "coco", ".json": "json"}  # by which a format is chosen that is not named

# what content of another shape than expected raises
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, csv.Error)
_OPENING = 1 << 12  # bytes of a file that its format is recognised by


def read_points(
    path: str | PathLike[str], image: str | PathLike[str] | None = None, category: str | None = None
) -> PointSet:
    """Read the points of one image.

    Args:
        path: The file of points.
        image: Whose points to read from a file that holds several images'; it is found by its file name.
        category: That of the object, where an image has several of different categories.

    Raises:
        InputError: The file is missing or malformed, or has no points of that image.
    """
    found = read_annotations(path, category)
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


def read_annotations(path: str | PathLike[str], category: str | None = None) -> dict[str | None, PointSet]:
    """Read all points of a file by image; None stands for an image that is not named.

    Args:
        path: The file of points.
        category: Read only objects of this category; by default all. A format without categories has one kind.

    Raises:
        InputError: The file is missing or malformed, or an image has several objects.
    """
    found = read_objects(path)
    try:
        return one_per_image(found, category)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_objects(path: str | PathLike[str]) -> Annotations:
    """Read all objects of a file; its format is recognised by its content.

    Raises:
        InputError: The file is missing, malformed or of no known format; the message names the file and the field.
        MissingExtraError: The format needs a package that is not installed.
    """
    path = Path(path)
    try:
        opening = b"" if path.is_dir() else _opening(path)
    except OSError as error:
        raise InputError(f"cannot read points from {path}: {error.strerror}") from error
    chosen = _recognise(path, opening)
    title = "JSON" if chosen is None else chosen.title
    try:
        if chosen is None:
            content = _parse(path)
            chosen = _holding(content)
            title = chosen.title
            found = _require(chosen.parse)(content)
        else:
            require(*chosen.needs)
            found = _require(chosen.read)(path)
        _check_names(found)
    except InputError as error:
        raise InputError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read points from {path}: {error.strerror or error}") from error
    except _MALFORMED as error:
        raise InputError(_describe(path, title, error)) from error
    if not any(True for _ in found.objects()):
        raise InputError(f"{path} holds no points")
    return found


def _opening(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_OPENING).removeprefix(b"\xef\xbb\xbf")


def _recognise(path: Path, opening: bytes) -> Format | None:
    """Return the format of a file; None for JSON whose content must tell."""
    for each in FORMATS.values():
        if each.starts is not None and each.starts(path, opening):
            return each
    if path.is_dir():
        raise InputError(f"{path} is a folder without a file of points")
    is_csv = path.suffix.lower() == ".csv" or (path.suffix.lower() != ".json" and opening.lstrip()[:1] not in b"{[")
    return FORMATS["csv"] if is_csv else None


def _parse(path: Path) -> Any:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read points from {path}: it is not text") from error
    if "\0" in text:
        raise InputError(f"cannot read points from {path}: it is not text")
    return parse_json(text)


def _holding(content: Any) -> Format:
    """Return the format of JSON; what no other recognises is our own."""
    known = (each for each in FORMATS.values() if each.holds is not None and each.holds(content))
    return next(known, FORMATS["json"])


def _describe(path: Path, title: str, error: Exception) -> str:
    said = f"{error!r:.300}".replace("\n", " ")
    if title in ("CSV", "JSON"):
        form = "CSV with columns x and y" if title == "CSV" else 'JSON like {"points": [[x, y], ...]}'
        return f"{path} must be {form}, or COCO keypoints: {said}"
    return f"{path} is not as {title} has it: {said}"


def _require(function: Any) -> Any:
    assert function is not None, "a format has starts and read, or holds and parse"
    return function


def _check_names(found: Annotations) -> None:
    """Refuse names that could not be written again: not text, or with unpaired surrogates."""
    checked: set[tuple[str, ...]] = set()
    for image, objects in found.images.items():
        ("" if image is None else image).encode("utf-8", "surrogateescape")
        for each in objects:
            if (names := (each.category or "", *each.names)) not in checked:
                checked.add(names)
                for name in names:
                    name.encode("utf-8", "surrogateescape")


def check_format(path: str | PathLike[str]) -> None:
    """Refuse a file name whose suffix is no format of points."""
    _format_of(path)


def _format_of(path: str | PathLike[str]) -> str:
    for suffix, name in SUFFIXES.items():
        if str(path).lower().endswith(suffix):
            return name
    raise InputError(f"cannot tell the format for points of {path}; use the suffix .json, .csv or {COCO_SUFFIX}")


def write_points(
    path: str | PathLike[str],
    annotations: Annotations | Mapping[str, PointSet],
    overwrite: bool = False,
    format: str | None = None,
    settings: Settings | None = None,
) -> None:
    """Write points by image.

    Args:
        path: The file, or the folder for a format that has a file per image.
        annotations: The objects of each image; a mapping from images to points has one object per image.
        overwrite: Whether to replace an existing file.
        format: A name from `FORMATS`; by default the suffix chooses: .csv, .coco.json or .json.
        settings: What the format needs besides points.

    Raises:
        InputError: The file exists, cannot be written, or the format cannot hold these points.
        MissingExtraError: The format needs a package that is not installed.
    """
    chosen, path = FORMATS[_format_of(path) if format is None else format], Path(path)
    require(*chosen.needs)
    settings = settings or Settings()
    annotations = with_prefix(as_annotations(annotations), settings.image_prefix)
    if None in annotations.images:
        raise InputError("the points do not say which image they are on; use a format that names it, such as CSV")
    if chosen.is_folder:
        _write_folder(path, lambda folder: chosen.write(folder, annotations, settings), overwrite)
    else:
        write_atomically(path, lambda temporary: chosen.write(temporary, annotations, settings), overwrite)


def with_prefix(annotations: Annotations, prefix: str) -> Annotations:
    """Write a prefix before the name of every image; where it is of a URL, the name is percent-encoded."""
    if not prefix:
        return annotations
    images = annotations.images
    encode = quote if "?" in prefix or "://" in prefix else str
    return replace(
        annotations,
        images={None if image is None else prefix + encode(image): objects for image, objects in images.items()},
    )


def _write_folder(path: Path, write: Callable[[Path], None], overwrite: bool) -> None:
    """Let `write` fill a temporary folder, then put its files in place; other files of the folder stay."""
    refuse_existing(path, overwrite=True)
    try:
        with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as name:
            write(Path(name))
            files = [file.relative_to(name) for file in sorted(Path(name).rglob("*")) if file.is_file()]
            if not overwrite and (there := next((file for file in files if (path / file).exists()), None)):
                raise InputError(f"{path / there} exists already; choose another folder or ask to overwrite it")
            move_files({Path(name) / file: path / file for file in files})
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
