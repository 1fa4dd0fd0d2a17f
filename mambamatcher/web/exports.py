"""Points and pictures to take away, in the formats the command line reads and writes."""

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import count
from typing import Literal

import numpy as np

from mambamatcher.io.drawing import draw_matches
from mambamatcher.io.points import ABSENT, VISIBLE, PointSet, to_coco, to_csv
from mambamatcher.web.pictures import Picture
from mambamatcher.web.schemas import DrawingRequest, NamedPoint

Annotations = dict[str, PointSet]
Format = Literal["json", "csv", "coco"]


def to_json(annotations: Annotations) -> str:
    """Return points by picture."""
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


WRITERS: dict[Format, tuple[Callable[[Annotations], str], str, str]] = {
    "json": (to_json, "application/json", "points.json"),
    "csv": (to_csv, "text/csv; charset=utf-8", "points.csv"),
    "coco": (
        lambda annotations: json.dumps(to_coco(annotations), indent=1) + "\n",
        "application/json",
        "points.coco.json",
    ),
}


def annotate(pictures: Sequence[tuple[Picture, Sequence[NamedPoint]]]) -> Annotations:
    """Put points together by picture; a name that several pictures have is made different."""
    annotations: Annotations = {}
    for picture, points in pictures:
        names = (picture.name if number == 1 else f"{number}-{picture.name}" for number in count(1))
        name = next(each for each in names if each not in annotations)
        sure = [point.confidence for point in points]
        annotations[name] = PointSet(
            points=np.array([(point.x, point.y) for point in points], dtype=float).reshape(-1, 2),
            names=tuple(point.name for point in points),
            visibility=np.array([VISIBLE if point.matched else ABSENT for point in points], dtype=np.int64),
            confidence=None if None in sure else np.array(sure, dtype=float),
            size=(picture.width, picture.height),
        )
    return annotations


def draw(asked: DrawingRequest, source: Picture, target: Picture) -> bytes:
    """Draw both pictures and their matches as a PNG."""
    images = source.image(), target.image()
    scales = [picture.scale(image) for picture, image in zip((source, target), images, strict=True)]
    drawn = draw_matches(
        *images,
        np.array([match.source for match in asked.matches], dtype=float) / scales[0],
        np.array([match.target for match in asked.matches], dtype=float) / scales[1],
        np.array([match.confidence for match in asked.matches], dtype=float),
        np.array([match.matched for match in asked.matches], dtype=bool),
    )
    encoded = BytesIO()
    drawn.save(encoded, "PNG")
    return encoded.getvalue()
