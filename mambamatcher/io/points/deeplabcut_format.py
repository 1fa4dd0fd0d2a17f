"""Points as DeepLabCut and Lightning Pose have them: `CollectedData_<scorer>.csv`, and predictions of a video.

Three rows name the columns: scorer, bodyparts and coords; with several objects per image a row of individuals comes
second. Each further row is an image, `labeled-data/<folder>/<image>`, or a frame of a video by its number. Frames have
the confidence as `likelihood`, labels of images have none. A point without a place is absent.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isnan
from pathlib import Path, PurePosixPath

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.checks import naming
from mambamatcher.io.points.annotations import Annotations, Settings
from mambamatcher.io.points.csv_format import LineWriter, create_text, masked, open_text, text_lines, unmasked
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.images import UNNAMED_VIDEO, name_frame, split_frame
from mambamatcher.io.points.point_set import ABSENT, VISIBLE, PointSet, make_points

ROWS = ("scorer", "individuals", "bodyparts", "coords")  # of the header; the second only with several individuals
FOLDER = "labeled-data"
OTHER = "images"  # folder of images that are in none
NAN = float("nan")


@dataclass(frozen=True)
class Table:
    """Columns as (individual, point, coordinate), and rows of places; the key of a row is an image or a frame."""

    columns: Sequence[tuple[str, str, str]]
    rows: Iterable[tuple[str, Sequence[float]]]


def read_deeplabcut(path: Path) -> Annotations:
    """Read labels of images, or predictions for the frames of a video."""
    with open_text(path) as file:
        rows = (row for row in csv.reader(text_lines(file)) if row)
        header = list(islice(rows, 3))
        if len(header) == 3 and header[1][0] == ROWS[1]:
            header += islice(rows, 1)
        titles = [row[0] for row in header]
        if titles not in ([*ROWS], [ROWS[0], *ROWS[2:]]):
            raise InputError(
                f"its first rows must be {', '.join(ROWS)} (individuals may be left out), got {titles!r:.90}"
            )
        keys = next((column for column, cell in enumerate(header[-1]) if column and cell), len(header[-1]))
        names = [[unmasked(cell) for cell in row[keys:]] for row in header[1:]]
        if len(names) == 2:
            names.insert(0, [""] * len(names[0]))
        table = Table(list(zip(*names, strict=True)), _csv_rows(rows, keys, len(names[0])))
        return from_table(table, path.stem)


def _csv_rows(rows: Iterable[list[str]], keys: int, columns: int) -> Iterator[tuple[str, list[float]]]:
    for number, row in enumerate(rows, start=1):
        with naming(f"row {number} after the header"):
            if len(row) != keys + columns:
                raise InputError(f"it has {len(row)} cells, and the header {keys + columns}")
            yield "/".join(map(unmasked, row[:keys])), [float(cell or NAN) for cell in row[keys:]]


def from_table(table: Table, stem: str) -> Annotations:
    """Return the objects of each row; `stem` is the name of the file, which may name the video of frames.

    DeepLabCut names predictions `clipDLC_<network>`. Labels, and what `propagate` writes, are named by their content.
    """
    indices: dict[str, dict[str, dict[str, int]]] = {}
    for index, (individual, point, coordinate) in enumerate(table.columns):
        if indices.setdefault(individual, {}).setdefault(point, {}).setdefault(coordinate, index) != index:
            raise InputError(f"two columns are {coordinate} of {point!r:.60}")
    layouts = []
    for individual, points in indices.items():
        for point, columns in points.items():
            if missing := {"x", "y"} - columns.keys():
                raise InputError(f"{point!r:.60} of {individual!r:.60} has no column {min(missing)}")
        where = [(columns["x"], columns["y"], columns.get("likelihood", -1)) for columns in points.values()]
        layouts.append((tuple(points), np.array(where)))
    is_named = not stem.startswith("CollectedData") and not stem.endswith(".dlc")
    video = (stem.partition("DLC")[0] or stem) if is_named else UNNAMED_VIDEO
    images: dict[str | None, list[PointSet]] = {}
    for key, row in table.rows:
        image = name_frame(video, int(key)) if key.isdigit() else key.replace("\\", "/")
        if image in images:
            raise InputError(f"two rows are of {image!r:.60}")
        values = np.array([*row, NAN])
        with naming(image):
            images[image] = [found for names, where in layouts if (found := _object(values, names, where)) is not None]
    return Annotations(images=images, has_visibility=False)


def _object(values: np.ndarray, names: tuple[str, ...], where: np.ndarray) -> PointSet | None:
    chosen = values[where]
    present = ~np.isnan(chosen[:, :2]).any(axis=1)
    if not present.any():
        return None
    has_scores = bool((where[:, 2] >= 0).all())
    scores = np.where(np.isnan(chosen[:, 2]), 0.0, chosen[:, 2]) if has_scores else None
    return make_points(chosen[:, :2], names, np.where(present, VISIBLE, ABSENT), scores)


def to_table(annotations: Annotations) -> Table:
    """Return labels of images, or rows with likelihoods for frames of a video."""
    frames = [split_frame(image or "") for image in annotations.images]
    is_video = all(frame is not None for frame in frames)
    if is_video and len({frame[0] for frame in frames if frame is not None}) > 1:
        raise InputError("a file of DeepLabCut is of one video, and these points are of several")
    names = list(dict.fromkeys(name for names in annotations.categories.values() for name in names))
    count = max((len(objects) for objects in annotations.images.values()), default=1)
    individuals = [f"individual{number}" for number in range(1, count + 1)] if count > 1 else [""]
    coordinates = ("x", "y", "likelihood") if is_video else ("x", "y")
    columns = [(one, name, coordinate) for one in individuals for name in names for coordinate in coordinates]
    keys = [str(frame[1]) for frame in frames if frame is not None] if is_video else _image_keys(annotations)
    rows = (
        (key, _row(objects, names, count, len(coordinates)))
        for key, objects in zip(keys, annotations.images.values(), strict=True)
    )
    return Table(columns, rows)


def _row(objects: Sequence[PointSet], names: Sequence[str], count: int, width: int) -> list[float]:
    row: list[float] = []
    empty = [NAN] * width
    for each in objects:
        places, seen = each.points.round(3).tolist(), each.visibility.tolist()
        sure = [1.0] * len(seen) if each.confidence is None else each.confidence.round(4).tolist()
        found = {
            name: [*places[index], sure[index]][:width]
            for index, name in enumerate(each.names)
            if seen[index] != ABSENT
        }
        for name in names:
            row += found.get(name, empty)
    return row + empty * len(names) * (count - len(objects))


def _image_keys(annotations: Annotations) -> list[str]:
    keys = []
    for image in annotations.images:
        parts = PurePosixPath(image or "").parts
        folder = parts[-2] if len(parts) > 1 else OTHER
        keys.append(f"{FOLDER}/{folder}/{parts[-1] if parts else ''}")
    if len(set(keys)) < len(keys):
        raise InputError(f"DeepLabCut has one level of folders below {FOLDER}, where two of these images are the same")
    return keys


def write_deeplabcut(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write CSV; places of absent points are empty."""
    table = to_table(annotations)
    with create_text(path) as file:
        row = LineWriter(file).row
        row(["scorer", *[masked(settings.scorer)] * len(table.columns)])
        if any(individual for individual, _, _ in table.columns):
            row(["individuals", *(individual for individual, _, _ in table.columns)])
        row(["bodyparts", *(masked(point) for _, point, _ in table.columns)])
        row(["coords", *(coordinate for _, _, coordinate in table.columns)])
        for key, values in table.rows:
            row([masked(key), *("" if isnan(value) else value for value in values)])


def is_deeplabcut(path: Path, opening: bytes) -> bool:
    """Return whether a file begins as DeepLabCut's CSV does."""
    return opening.startswith((b"scorer,", b'"scorer",'))


FORMATS.register("deeplabcut")(
    Format(
        title="DeepLabCut",
        file="CollectedData_{scorer}.csv",
        starts=is_deeplabcut,
        read=read_deeplabcut,
        write=write_deeplabcut,
    )
)
