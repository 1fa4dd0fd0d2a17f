"""Points as JSON.

`[[x, y], ...]`, or `{"points": [[x, y], ...], "names": [...], "visibility": [...]}`, or several images as
`{"images": {"a.jpg": {"points": ...}, ...}}`.
"""

from collections.abc import Mapping
from typing import Any

from mambamatcher.io.points.point_set import PointSet, make_points


def from_json(content: Any) -> dict[str | None, PointSet]:
    """Return the points of each image; None stands for an image that is not named."""
    if isinstance(content, list):
        return {None: make_points(content)}
    if "images" in content:
        return {name: _from_entry(entry) for name, entry in content["images"].items()}
    return {None: _from_entry(content)}


def to_json(annotations: Mapping[str, PointSet]) -> dict[str, Any]:
    """Return the points of several images."""
    return {"images": {name: _entry(each) for name, each in annotations.items()}}


def _from_entry(entry: Mapping[str, Any]) -> PointSet:
    return make_points(entry["points"], entry.get("names"), entry.get("visibility"))


def _entry(points: PointSet) -> dict[str, Any]:
    confidence = {} if points.confidence is None else {"confidence": points.confidence.round(4).tolist()}
    return {
        "points": points.points.round(3).tolist(),
        "names": list(points.names),
        "visibility": points.visibility.tolist(),
        **confidence,
    }
