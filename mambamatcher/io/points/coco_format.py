"""Points as COCO keypoints: `images`, `annotations` and `categories`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.points.point_set import ABSENT, Box, PointSet, make_points


def from_coco(content: Mapping[str, Any]) -> dict[str | None, PointSet]:
    """Return the points of each image."""
    images = {image["id"]: image for image in content["images"]}
    categories = {category["id"]: category for category in content.get("categories", [])}
    found: dict[str | None, PointSet] = {}
    for annotation in content["annotations"]:
        image = images[annotation["image_id"]]
        if image["file_name"] in found:
            raise InputError(f"{image['file_name']} has several annotated objects; keep the one whose points to use")
        category = categories.get(annotation.get("category_id"), {})
        triples = np.asarray(annotation["keypoints"], dtype=np.float64).reshape(-1, 3)
        points = make_points(triples[:, :2], category.get("keypoints"), triples[:, 2].astype(np.int64))
        found[image["file_name"]] = replace(
            points, category=category.get("name"), box=_from_box(annotation.get("bbox"))
        )
    return found


def _from_box(bbox: Sequence[float] | None) -> Box | None:
    """Return the corners of a COCO box; one without width or height says nothing."""
    if bbox is None:
        return None
    left, top, width, height = map(float, bbox)
    return (left, top, left + width, top + height) if width > 0 and height > 0 else None


def to_coco(annotations: Mapping[str, PointSet], category: str = "object") -> dict[str, Any]:
    """Return COCO keypoints: one category with all names, one object per image.

    A point of visibility 0 is written (0, 0, 0), as COCO defines. The box encloses the other points. Confidences are
    in `keypoint_scores`, an addition of ours that other readers skip.
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
