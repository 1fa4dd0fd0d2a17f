"""Points as JSON.

`[[x, y], ...]`, or `{"points": [[x, y], ...], "names": [...], "visibility": [...], "confidence": [...]}`, or several
images as `{"images": {"a.jpg": {"points": ...}, ...}}`. An image with several objects has a list of them.
"""

import json
from pathlib import Path
from typing import Any

from mambamatcher.io.checks import check_kind, naming
from mambamatcher.io.points.annotations import Annotations, Settings
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.point_set import PointSet, make_points


def from_json(content: Any) -> Annotations:
    """Return the objects of each image; None stands for an image that is not named."""
    if isinstance(content, list):
        return Annotations(images={None: [make_points(content)]})
    if not isinstance(content, dict):
        raise TypeError(f"it is {content!r:.60}")
    if "images" not in content:
        return Annotations(images={None: [_from_entry(content)]})
    skeletons = {
        category: tuple((str(start), str(end)) for start, end in pairs)
        for category, pairs in content.get("skeletons", {}).items()
    }
    entries, images = check_kind(content["images"], dict, "images"), {}
    for name in list(entries):
        entry = entries.pop(name)  # so that a large file is not twice in memory
        with naming(f"images[{name!r:.60}]"):
            images[name] = [_from_entry(each) for each in (entry if isinstance(entry, list) else [entry])]
    return Annotations(images=images, skeletons=skeletons)


def write_json(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write one line per image."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("{")
        if annotations.skeletons:
            file.write(f'"skeletons": {json.dumps(annotations.skeletons)},\n ')
        file.write('"images": {')
        for number, (image, objects) in enumerate(annotations.images.items()):
            entries = [_entry(each) for each in objects]
            content = json.dumps(entries[0] if len(entries) == 1 else entries)
            file.write(f"{',' if number else ''}\n {json.dumps(image)}: {content}")
        file.write("\n}}\n")


def _from_entry(entry: Any) -> PointSet:
    size, names, category = (check_kind(entry, dict, "an entry").get(key) for key in ("size", "names", "category"))
    if category is not None:
        check_kind(category, str, "category")
    return make_points(
        entry["points"],
        None if names is None else check_kind(names, list, "names"),
        entry.get("visibility"),
        entry.get("confidence"),
        None if size is None else (int(size[0]), int(size[1])),
        category,
    )


def _entry(points: PointSet) -> dict[str, Any]:
    content = {
        "points": points.points.round(3).tolist(),
        "names": list(points.names),
        "visibility": points.visibility.tolist(),
    }
    if points.confidence is not None:
        content["confidence"] = points.confidence.round(4).tolist()
    if points.size is not None:
        content["size"] = list(points.size)
    if points.category is not None:
        content["category"] = points.category
    return content


FORMATS.register("json")(Format(title="JSON", file="points.json", parse=from_json, write=write_json))
