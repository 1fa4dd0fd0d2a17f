"""Points as COCO keypoints: `images`, `annotations` and `categories`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.checks import check_kind, check_numbers, naming
from mambamatcher.io.points.annotations import DEFAULT_CATEGORY, Annotations, Settings, Skeleton, as_annotations
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.point_set import ABSENT, Box, PointSet, make_points


def from_coco(content: Mapping[str, Any]) -> Annotations:
    """Return the objects of each image. Annotations without keypoints, such as boxes alone, are skipped."""
    files: dict[Any, tuple[str, tuple[int, int] | None]] = {}
    for number, image in enumerate(check_kind(content["images"], list, "images")):
        with naming(f"images[{number}]"):
            size = (int(image["width"]), int(image["height"])) if image.get("width") and image.get("height") else None
            if image["id"] in files:
                raise InputError(f"another image has the id {image['id']!r:.60} too")
            files[image["id"]] = check_kind(image["file_name"], str, "file_name"), size
    if len({name for name, _ in files.values()}) < len(files):
        raise InputError("two of its images have the same file_name")
    categories = _from_categories(content.get("categories", []))
    images: dict[str | None, list[PointSet]] = {}
    for number, annotation in enumerate(check_kind(content["annotations"], list, "annotations")):
        with naming(f"annotations[{number}]"):
            if annotation["image_id"] not in files:
                raise InputError(f"image_id {annotation['image_id']!r:.60} is of no image of this COCO file")
            name, size = files[annotation["image_id"]]
            if "keypoints" in annotation:
                category_id = annotation.get("category_id")
                if categories and category_id is not None and category_id not in categories:
                    raise InputError(f"category_id {category_id!r:.60} is of no category of this COCO file")
                category = categories.get(category_id, {})
                images.setdefault(name, []).append(_from_object(annotation, category, size))
    skeletons = {}
    for each in categories.values():
        with naming("categories"):
            if each.get("skeleton"):
                skeletons[each["name"]] = _from_skeleton(each)
    return Annotations(images=images, skeletons=skeletons)


def _from_categories(content: Any) -> dict[Any, Mapping[str, Any]]:
    """Return the categories by their ids. Two of one id would give points the names of another object."""
    categories: dict[Any, Mapping[str, Any]] = {}
    for number, each in enumerate(check_kind(content, list, "categories")):
        with naming(f"categories[{number}]"):
            if check_kind(each, dict, "a category")["id"] in categories:
                raise InputError(f"another category has the id {each['id']!r:.60} too")
            if "name" in each:
                check_kind(each["name"], str, "name")
            for point in check_kind(each.get("keypoints", []), list, "keypoints"):
                check_kind(point, str, "a name in keypoints")
            categories[each["id"]] = each
    return categories


def _from_object(annotation: Mapping[str, Any], category: Mapping[str, Any], size: tuple[int, int] | None) -> PointSet:
    values = np.asarray(annotation["keypoints"], dtype=np.float64)
    if values.size % 3:
        raise InputError(f"keypoints must hold x, y and visibility of each point, got {values.size} numbers")
    triples = values.reshape(-1, 3)
    points = make_points(
        triples[:, :2],
        category.get("keypoints"),
        triples[:, 2],
        annotation.get("keypoint_scores"),
        size,
        category.get("name"),
    )
    return replace(points, box=_from_box(annotation.get("bbox")))


def _from_box(bbox: Any) -> Box | None:
    """Return the corners of a COCO box; one without width or height says nothing."""
    if bbox is None:
        return None
    with naming("bbox"):
        check_numbers(bbox, 4, "it")
    left, top, width, height = map(float, bbox)
    return (left, top, left + width, top + height) if width > 0 and height > 0 else None


def _from_skeleton(category: Mapping[str, Any]) -> Skeleton:
    names = category["keypoints"]
    if not all(1 <= index <= len(names) for pair in category["skeleton"] for index in pair):
        raise InputError(f"skeleton of {category['name']!r:.60} names a point that is not among its keypoints")
    return tuple((str(names[start - 1]), str(names[end - 1])) for start, end in category["skeleton"])


def to_coco(annotations: Annotations | Mapping[str, PointSet], category: str = DEFAULT_CATEGORY) -> dict[str, Any]:
    """Return COCO keypoints.

    A point of visibility 0 is written (0, 0, 0), as COCO defines. The box is the object's, or else encloses
    the other points. Confidences are
    in `keypoint_scores`, an addition of ours that other readers skip.

    Args:
        annotations: The objects of each image.
        category: That of objects without one.
    """
    annotations = as_annotations(annotations)
    return {
        "images": list(_images(annotations)),
        "annotations": list(_objects(annotations, category)),
        "categories": _categories(annotations, category),
    }


def write_coco(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write one line per image and per object."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for key, entries in (("images", _images(annotations)), ("annotations", _objects(annotations))):
            file.write(f'{"{" if key == "images" else ""}"{key}": [')
            for number, entry in enumerate(entries):
                file.write(f"{',' if number else ''}\n {json.dumps(entry)}")
            file.write("],\n")
        file.write(f'"categories": {json.dumps(_categories(annotations))}}}\n')


def _images(annotations: Annotations) -> Iterator[dict[str, Any]]:
    for number, (image, objects) in enumerate(annotations.images.items(), start=1):
        size = next((each.size for each in objects if each.size is not None), None)
        yield {"id": number, "file_name": image} | ({} if size is None else {"width": size[0], "height": size[1]})


def _objects(annotations: Annotations, category: str = DEFAULT_CATEGORY) -> Iterator[dict[str, Any]]:
    categories = _point_names(annotations, category)
    numbers = {name: number for number, name in enumerate(categories, start=1)}
    ids = count(1)
    for image, objects in enumerate(annotations.images.values(), start=1):
        for each in objects:
            name = each.category or category
            found = _coco_object(each, categories[name])
            yield {"id": next(ids), "image_id": image, "category_id": numbers[name], **found}


def _categories(annotations: Annotations, category: str = DEFAULT_CATEGORY) -> list[dict[str, Any]]:
    found = []
    for number, (name, points) in enumerate(_point_names(annotations, category).items(), start=1):
        rows = {point: row for row, point in enumerate(points, start=1)}
        skeleton = [
            [rows[start], rows[end]]
            for start, end in annotations.skeletons.get(name, ())
            if start in rows and end in rows
        ]
        found.append({"id": number, "name": name, "keypoints": points, "skeleton": skeleton})
    return found


def _point_names(annotations: Annotations, category: str) -> dict[str, list[str]]:
    """Return the names of the points of each category; objects without one are of `category`."""
    found = annotations.categories
    return {category if name == DEFAULT_CATEGORY else name: names for name, names in found.items()}


def _coco_object(points: PointSet, names: Sequence[str]) -> dict[str, Any]:
    rows = {name: index for index, name in enumerate(points.names) if points.visibility[index] != ABSENT}
    places, seen = points.points.round(3).tolist(), points.visibility.tolist()
    triples = [(*places[rows[n]], seen[rows[n]]) if n in rows else (0, 0, 0) for n in names]
    labelled = points.points[list(rows.values())] if points.box is None else np.reshape(points.box, (2, 2))
    content: dict[str, Any] = {
        "keypoints": [value for triple in triples for value in triple],
        "num_keypoints": len(rows),
        **bounding_box(labelled),
        "iscrowd": 0,
    }
    if points.confidence is not None:
        scores = dict(zip(points.names, points.confidence.round(4).tolist(), strict=True))
        content["keypoint_scores"] = [scores.get(name, 0.0) for name in names]
    return content


def bounding_box(points: np.ndarray) -> dict[str, Any]:
    """Return the box around points as COCO has it: left, top, width and height, and its area."""
    left, top = points.min(axis=0) if len(points) else (0.0, 0.0)
    right, bottom = points.max(axis=0) if len(points) else (0.0, 0.0)
    sides: Iterable[Any] = (left, top, right - left, bottom - top)
    return {
        "bbox": [round(float(value), 3) for value in sides],
        "area": round(float((right - left) * (bottom - top)), 3),
    }


FORMATS.register("coco")(
    Format(
        title="COCO keypoints",
        file="points.coco.json",
        holds=lambda content: isinstance(content, dict) and {"annotations", "images"} <= content.keys(),
        parse=from_coco,
        write=write_coco,
    )
)
