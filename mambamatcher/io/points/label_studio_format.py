"""Points as tasks of Label Studio: predictions out, predictions and annotations in.

Label Studio has coordinates in percent of the image, from 0 to 100. A point is a region of a tag `KeyPointLabels`.
Where an image has several objects, each is a region of a tag `RectangleLabels`, and its points name it as parent.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path, PurePosixPath
from sys import intern
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.checks import check_kind, naming
from mambamatcher.io.json_array import parse_json_array
from mambamatcher.io.points.annotations import DEFAULT_CATEGORY, Annotations, Settings
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.point_set import ABSENT, HIDDEN, VISIBLE, PointSet, make_points
from mambamatcher.io.points.xml_text import xml_attribute

OBJECTS_TAG = "objects"  # name of the tag RectangleLabels
POINT_WIDTH = 0.5  # of a point on the screen, in percent of the image's width
_HIDDEN_NOTE = "hidden"  # a note on a region, since Label Studio has no visibility
_UPLOADED = re.compile(r"/data/upload/(?:\d+/)?(?:[0-9a-f]{8}-)?(.+)\Z", re.DOTALL)
_IMAGE = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def read_tasks(path: Path) -> Annotations:
    """Read a file of tasks: an export as JSON or JSON-MIN, or tasks with predictions."""
    return from_tasks(parse_json_array(path))


def from_tasks(tasks: Iterable[Any]) -> Annotations:
    """Return the objects of each task's image.

    Of a task's annotations the last is taken that was not skipped; where it has none, its first prediction.
    """
    images: dict[str | None, list[PointSet]] = {}
    for number, task in enumerate(tasks):
        with naming(f"task {number + 1}"):
            is_short = "data" not in check_kind(task, dict, "a task")
            data = task if is_short else check_kind(task["data"], dict, "data")
            image = clean_image(_image_of(data))
            if image in images:
                raise InputError(f"the image {image} has a task before this one")
            images[image] = from_results(_short_results(task) if is_short else _results(task))
    return Annotations(images=images)


def clean_image(url: str) -> str:
    """Return the name of an image without what Label Studio adds to it.

    Example:
        >>> clean_image("/data/local-files/?d=photos/0.jpg"), clean_image("/data/upload/3/1a2b3c4d-0.jpg")
        ('photos/0.jpg', '0.jpg')
    """
    has_query = "?d=" in url or (url.startswith("/") and "?" in url)  # a relative path may have a question mark
    if not has_query and "://" not in url and not url.startswith("/data/"):
        return url
    parts = urlsplit(url)
    if local := parse_qs(parts.query).get("d"):
        return local[0]
    if uploaded := _UPLOADED.match(parts.path):
        return unquote(uploaded[1])
    return unquote(parts.path).lstrip("/") or url


def from_results(results: Any) -> list[PointSet]:
    """Return the objects of a list of regions, such as the `result` of an annotation or a prediction."""
    grouped: dict[Any, list[Mapping[str, Any]]] = {}
    categories: dict[Any, str] = {}
    for number, region in enumerate(check_kind(results, list, "result")):
        with naming(f"result[{number}]"):
            value = check_kind(region, dict, "a region").get("value", {})
            if "keypointlabels" in value:
                grouped.setdefault(region.get("parentID"), []).append(region)
            elif value.get("rectanglelabels"):
                categories[region.get("id")] = str(value["rectanglelabels"][0])
    return [_object(regions, categories.get(parent)) for parent, regions in grouped.items()]


def _object(regions: Sequence[Mapping[str, Any]], category: str | None) -> PointSet:
    places, names, seen, scores = [], [], [], []
    size = None
    for region in regions:
        value = region["value"]
        (name,) = value["keypointlabels"] or [""]
        size = int(region["original_width"]), int(region["original_height"])
        if min(size) < 1:
            raise InputError(f"original_width and original_height of {name!r:.60} are {size[0]} and {size[1]}")
        places.append((float(value["x"]) * size[0] / 100, float(value["y"]) * size[1] / 100))
        names.append(intern(str(name)))
        notes = (region.get("meta") or {}).get("text") or ()
        seen.append(HIDDEN if _HIDDEN_NOTE in notes else VISIBLE)
        scores.append(float("nan") if region.get("score") is None else float(region["score"]))
    return make_points(places, names, seen, None if any(map(isnan, scores)) else scores, size, category)


def _results(task: Mapping[str, Any]) -> Any:
    annotations = [each for each in task.get("annotations") or () if not each.get("was_cancelled")]
    if annotations:
        return annotations[-1]["result"]
    predictions = task.get("predictions") or ()
    return predictions[0]["result"] if predictions else []


def _short_results(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the regions of a task as JSON-MIN has them, without what names and groups them."""
    return [
        {"value": region, **region}
        for regions in task.values()
        if isinstance(regions, list)
        for region in regions
        if isinstance(region, dict) and "keypointlabels" in region
    ]


def _image_of(data: Mapping[str, Any]) -> str:
    texts = {key: value for key, value in data.items() if isinstance(value, str)}
    if "image" in texts:
        return texts["image"]
    for text in texts.values():
        if PurePosixPath(urlsplit(text).path).suffix.lower() in _IMAGE or "?d=" in text:
            return text
    raise InputError("data has no image")


def to_results(objects: Sequence[PointSet], settings: Settings, is_grouped: bool = False) -> list[dict[str, Any]]:
    """Return the points of one image as regions.

    Args:
        objects: The objects of the image, with its size.
        settings: The names of the tags of the labelling configuration.
        is_grouped: Write a rectangle for each object, which its points name as parent.
    """
    return [
        region
        for number, each in enumerate(objects, start=1)
        for region in _regions(each, f"object-{number}", settings, is_grouped)
    ]


def _regions(points: PointSet, number: str, settings: Settings, is_grouped: bool) -> Iterator[dict[str, Any]]:
    if points.size is None:
        raise InputError(
            "its size is not known, and Label Studio has places in percent of it; give the folder of images"
        )
    width, height = points.size
    common = {"to_name": settings.to_name, "original_width": width, "original_height": height, "image_rotation": 0}
    percent = (points.points * (100 / width, 100 / height)).round(6)
    kept = np.flatnonzero(points.visibility != ABSENT)
    if is_grouped and len(kept):
        (left, top), (right, bottom) = percent[kept].min(axis=0).tolist(), percent[kept].max(axis=0).tolist()
        box = {"x": left, "y": top, "width": round(right - left, 6), "height": round(bottom - top, 6), "rotation": 0}
        value = {**box, "rectanglelabels": [points.category or DEFAULT_CATEGORY]}
        yield {"id": number, "type": "rectanglelabels", "from_name": OBJECTS_TAG, **common, "value": value}
    for index, (x, y) in zip(kept.tolist(), percent[kept].tolist(), strict=True):
        region: dict[str, Any] = {
            "id": f"{number}-{index + 1}",
            "type": "keypointlabels",
            "from_name": settings.from_name,
            **common,
            "value": {"x": x, "y": y, "width": POINT_WIDTH, "keypointlabels": [points.names[index]]},
        }
        if points.confidence is not None:
            region["score"] = round(float(points.confidence[index]), 4)
        if points.visibility[index] == HIDDEN:
            region["meta"] = {"text": [_HIDDEN_NOTE]}
        if is_grouped:
            region["parentID"] = number
        yield region


def to_task(image: str, objects: Sequence[PointSet], settings: Settings, is_grouped: bool = False) -> dict[str, Any]:
    """Return a task with a prediction."""
    with naming(image):
        prediction: dict[str, Any] = {
            "model_version": settings.scorer,
            "result": to_results(objects, settings, is_grouped),
        }
    if scores := [region["score"] for region in prediction["result"] if "score" in region]:
        prediction["score"] = round(sum(scores) / len(scores), 4)
    return {"data": {"image": image}, "predictions": [prediction]}


def write_tasks(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write tasks with predictions, one line each."""
    is_grouped = annotations.has_several or len(annotations.categories) > 1
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("[")
        for number, (image, objects) in enumerate(annotations.images.items()):
            task = to_task(image or "", objects, settings, is_grouped)
            file.write(f"{',' if number else ''}\n{json.dumps(task)}")
        file.write("\n]\n")


def write_configuration(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write the labelling configuration that a project needs for these points."""
    categories = annotations.categories
    names = list(dict.fromkeys(name for names in categories.values() for name in names))
    lines = [
        "<View>",
        f'  <Image name={xml_attribute(settings.to_name)} value="$image"/>',
        f"  <KeyPointLabels name={xml_attribute(settings.from_name)} toName={xml_attribute(settings.to_name)}>",
        *(f'    <Label value={xml_attribute(name)} model_index="{index}"/>' for index, name in enumerate(names)),
        "  </KeyPointLabels>",
    ]
    if annotations.has_several or len(categories) > 1:
        lines += [
            f"  <RectangleLabels name={xml_attribute(OBJECTS_TAG)} toName={xml_attribute(settings.to_name)}>",
            *(f"    <Label value={xml_attribute(name)}/>" for name in categories),
            "  </RectangleLabels>",
        ]
    path.write_text("\n".join([*lines, "</View>", ""]), encoding="utf-8", newline="")


FORMATS.register("label-studio-config")(
    Format(title="Label Studio's labelling configuration", file="label-studio-config.xml", write=write_configuration)
)
FORMATS.register("label-studio")(
    Format(
        title="Label Studio",
        file="points.label-studio.json",
        starts=lambda path, opening: re.match(rb"\s*\[\s*\{", opening) is not None,
        read=read_tasks,
        holds=lambda content: isinstance(content, dict) and isinstance(content.get("data"), dict),
        parse=lambda content: from_tasks([content]),
        write=write_tasks,
    )
)
