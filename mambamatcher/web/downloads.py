"""What the page downloads: points in the formats that the command line reads, and an image of the matches."""

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import count
from typing import Literal

import numpy as np

from mambamatcher.io.drawing import draw_matches
from mambamatcher.io.points import ABSENT, VISIBLE, PointSet, to_coco, to_csv
from mambamatcher.web.schemas import DrawingRequest, NamedPoint
from mambamatcher.web.uploads import StoredImage

Annotations = dict[str, PointSet]
Format = Literal["json", "csv", "coco"]


def to_json(annotations: Annotations) -> str:
    """Write points as JSON, grouped by image."""
    images = {
        name: {
            "points": each.points.round(3).tolist(),
            "names": list(each.names),
            "visibility": each.visibility.tolist(),
            **({} if each.confidence is None else {"confidence": each.confidence.round(4).tolist()}),
        }
        for name, each in annotations.items()
    }
    return json.dumps({"images": images}, indent=1) + "\n"


# For each format: the writer, the media type and the file name.
WRITERS: dict[Format, tuple[Callable[[Annotations], str], str, str]] = {
    "json": (to_json, "application/json", "points.json"),
    "csv": (to_csv, "text/csv; charset=utf-8", "points.csv"),
    "coco": (
        lambda annotations: json.dumps(to_coco(annotations), indent=1) + "\n",
        "application/json",
        "points.coco.json",
    ),
}


def to_annotations(images: Sequence[tuple[StoredImage, Sequence[NamedPoint]]]) -> Annotations:
    """Group points by the name of their image. Further images of the same name become `2-name`, `3-name` …"""
    annotations: Annotations = {}
    for image, points in images:
        candidates = (image.name if number == 1 else f"{number}-{image.name}" for number in count(1))
        name = next(candidate for candidate in candidates if candidate not in annotations)
        confidence = [point.confidence for point in points]
        annotations[name] = PointSet(
            points=np.array([(point.x, point.y) for point in points], dtype=float).reshape(-1, 2),
            names=tuple(point.name for point in points),
            visibility=np.array([VISIBLE if point.matched else ABSENT for point in points], dtype=np.int64),
            confidence=None if None in confidence else np.array(confidence, dtype=float),
            size=(image.width, image.height),
        )
    return annotations


def draw_png(request: DrawingRequest, source: StoredImage, target: StoredImage) -> bytes:
    """Draw both images side by side with their matches, as a PNG file."""
    copies = source.decode_copy(), target.decode_copy()
    scales = source.scale_from(copies[0]), target.scale_from(copies[1])
    drawn = draw_matches(
        *copies,
        np.array([match.source for match in request.matches], dtype=float) / scales[0],
        np.array([match.target for match in request.matches], dtype=float) / scales[1],
        np.array([match.confidence for match in request.matches], dtype=float),
        np.array([match.matched for match in request.matches], dtype=bool),
    )
    encoded = BytesIO()
    drawn.save(encoded, "PNG")
    return encoded.getvalue()
