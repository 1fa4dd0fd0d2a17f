"""Points as files of X-AnyLabeling: a JSON file per image, beside it or in a folder of its own. LabelMe's are read too.

A point is a shape of the type `point`. A hidden one is `difficult`, an absent one is left out. Where an image has
several objects, the points of each have one `group_id`, and a rectangle of that group has the category as its label.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import parse_json
from mambamatcher.io.checks import check_kind, naming
from mambamatcher.io.points.annotations import DEFAULT_CATEGORY, Annotations, Settings
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.images import split_frame
from mambamatcher.io.points.point_set import ABSENT, HIDDEN, VISIBLE, PointSet, Size, make_points

VERSION = "4.2.1"  # of X-AnyLabeling, whose fields are written


def read_folder(folder: Path) -> Annotations:
    """Read the files of a folder and those below; an image is named by its path within the folder."""
    images: dict[str | None, list[PointSet]] = {}
    for path in sorted(folder.rglob("*.json")):
        with naming(path):
            content = parse_json(path.read_bytes())
            if not is_label_file(content):
                continue
            inner = PurePosixPath(path.parent.relative_to(folder).as_posix())
            for image, objects in from_label_file(content, inner).images.items():
                if image in images:
                    raise InputError(f"imagePath {image!r:.60} is that of another file too")
                images[image] = list(objects)
    return Annotations(images=images)


def is_label_file(content: Any) -> bool:
    """Return whether the content of a JSON file is of this format."""
    return isinstance(content, dict) and "shapes" in content


def from_label_file(content: Mapping[str, Any], folder: PurePosixPath | None = None) -> Annotations:
    """Return the objects of one image from the content of its file, which lies in `folder`."""
    image = check_kind(content["imagePath"], str, "imagePath").replace("\\", "/")
    width, height = content.get("imageWidth"), content.get("imageHeight")
    size = None if not width or not height else (int(width), int(height))
    name = image if folder is None else (folder / image).as_posix()
    return Annotations(images={name: from_shapes(content["shapes"], size)})


def from_shapes(shapes: Any, size: Size | None) -> list[PointSet]:
    """Return the objects that a list of shapes has points of."""
    grouped: dict[Any, list[tuple[tuple[float, float], str, int, float | None]]] = {}
    categories: dict[Any, str] = {}
    for number, shape in enumerate(check_kind(shapes, list, "shapes")):
        with naming(f"shapes[{number}]"):
            group = check_kind(shape, dict, "a shape").get("group_id")
            if shape["shape_type"] == "point":
                grouped.setdefault(group, []).append(_point(shape))
            elif shape["shape_type"] == "rectangle" and group is not None:
                categories[group] = check_kind(shape["label"], str, "label")
    found = []
    for group, points in grouped.items():
        places, names, seen, scores = map(list, zip(*points, strict=True))
        found.append(make_points(places, names, seen, None if None in scores else scores, size, categories.get(group)))
    return found


def _point(shape: Mapping[str, Any]) -> tuple[tuple[float, float], str, int, float | None]:
    """Return place, name, visibility and score of a shape of the type `point`."""
    ((x, y),) = shape["points"]
    score = shape.get("score")
    seen = HIDDEN if shape.get("difficult") else VISIBLE
    label = check_kind(shape["label"], str, "label")
    return (float(x), float(y)), label, seen, None if score is None else float(score)


def to_shapes(objects: Sequence[PointSet]) -> list[dict[str, Any]]:
    """Return the points of one image as shapes. Several objects, or one with a category, have a rectangle each."""
    is_grouped = len(objects) > 1 or any(each.category is not None for each in objects)
    return [
        shape
        for number, each in enumerate(objects, start=1)
        for shape in _object_shapes(each, number if is_grouped else None)
    ]


def _object_shapes(points: PointSet, group: int | None) -> Iterator[dict[str, Any]]:
    kept = np.flatnonzero(points.visibility != ABSENT)
    places = points.points[kept].round(3)
    if group is not None and len(kept):
        (left, top), (right, bottom) = places.min(axis=0).tolist(), places.max(axis=0).tolist()
        corners = [[left, top], [right, top], [right, bottom], [left, bottom]]
        yield _shape(points.category or DEFAULT_CATEGORY, "rectangle", corners, group)
    for index, place in zip(kept.tolist(), places.tolist(), strict=True):
        score = None if points.confidence is None else round(float(points.confidence[index]), 4)
        is_hidden = bool(points.visibility[index] == HIDDEN)
        yield _shape(points.names[index], "point", [place], group) | {"score": score, "difficult": is_hidden}


def _shape(label: str, kind: str, points: list[Any], group: int | None) -> dict[str, Any]:
    return {
        "label": label,
        "score": None,
        "points": points,
        "group_id": group,
        "description": "",
        "difficult": False,
        "shape_type": kind,
        "flags": {},
        "attributes": {},
        "kie_linking": [],
    }


def write_folder(folder: Path, annotations: Annotations, settings: Settings) -> None:
    """Write a file per image, in folders as the images are."""
    made: set[Path] = set()
    for image, objects in annotations.images.items():
        name = PurePosixPath(image or "image")
        if name.is_absolute() or ".." in name.parts or not name.name or "\0" in str(name):
            raise InputError(f"{image!r:.60} is not a path within a folder, and X-AnyLabeling needs a file beside it")
        is_frame = split_frame(name.name) is not None
        path = folder / (name.with_name(f"{name.name}.json") if is_frame else name.with_suffix(".json"))
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        try:
            with path.open("xb") as file:
                file.write(json.dumps(to_label_file(name.name, objects)).encode())
        except FileExistsError as error:
            raise InputError(f"{image!r:.60} and another image would have the same file {path.name}") from error


def to_label_file(image: str, objects: Sequence[PointSet]) -> dict[str, Any]:
    """Return the content of the file of one image, which lies beside it."""
    width, height = next((each.size for each in objects if each.size is not None), (None, None))
    return {
        "version": VERSION,
        "flags": {},
        "shapes": to_shapes(objects),
        "imagePath": image,
        "imageData": None,
        "imageHeight": height,
        "imageWidth": width,
    }


FORMATS.register("x-anylabeling")(
    Format(
        title="X-AnyLabeling",
        file="x-anylabeling",
        starts=lambda path, opening: path.is_dir(),
        read=read_folder,
        holds=is_label_file,
        parse=from_label_file,
        write=write_folder,
        is_folder=True,
    )
)
