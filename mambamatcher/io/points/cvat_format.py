"""Points as skeletons of CVAT, in the XML of "CVAT for images 1.1".

A skeleton has all points of its label. An absent one is `outside`, which CVAT does not draw, and a hidden one
`occluded`. CVAT keeps confidences where the label has a text attribute `confidence`, and ignores them elsewhere.
"""

import json
from collections.abc import Mapping, Sequence
from io import TextIOBase
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.points.annotations import DEFAULT_CATEGORY, Annotations, Settings
from mambamatcher.io.points.cvat_reader import CONFIDENCE, FRAME_NAME, CvatReader
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.images import split_frame
from mambamatcher.io.points.point_set import ABSENT, HIDDEN, PointSet
from mambamatcher.io.points.xml_text import xml_attribute, xml_text


def read_cvat(path: Path) -> Annotations:
    """Read the objects of each image, or of each frame of a video."""
    return CvatReader().read(path)


def write_cvat(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write an `annotations.xml`; frames of a video are named as CVAT names them."""
    categories = annotations.categories
    texts = {name: xml_attribute(name) for category, names in categories.items() for name in (category, *names)}
    videos = {frame[0] for frame in map(split_frame, filter(None, annotations.images)) if frame is not None}
    if len(videos) > 1:
        raise InputError(f"a file of CVAT is of one video, and these points are of {len(videos)}")
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n<version>1.1</version>\n<meta>\n<task>\n')
        file.write(f"<size>{len(annotations.images)}</size>\n<mode>annotation</mode>\n<labels>\n")
        for label in _labels(annotations):
            file.write(_label_element(label))
        file.write("</labels>\n" + "".join(f"<source>{xml_text(video)}</source>\n" for video in videos))
        file.write("</task>\n</meta>\n")
        for number, (image, objects) in enumerate(annotations.images.items()):
            frame = split_frame(image or "")
            name, index = (image or "", number) if frame is None else (FRAME_NAME.format(frame[1]), frame[1])
            size = next((each.size for each in objects if each.size is not None), None)
            sides = "" if size is None else f' width="{size[0]}" height="{size[1]}"'
            file.write(f'<image id="{index}" name={xml_attribute(name)}{sides}>\n')
            for each in objects:
                _write_skeleton(file, each, categories[each.category or DEFAULT_CATEGORY], texts)
            file.write("</image>\n")
        file.write("</annotations>\n")


def _write_skeleton(file: TextIOBase, points: PointSet, names: Sequence[str], texts: Mapping[str, str]) -> None:
    seen = points.visibility.tolist()
    rows = {name: row for row, name in enumerate(points.names) if seen[row] != ABSENT}
    if not rows:
        return
    middle = points.points[list(rows.values())].mean(axis=0).round(3).tolist()  # where an absent point can be drawn
    places = points.points.round(3).tolist()
    scores = None if points.confidence is None else points.confidence.round(4).tolist()
    lines = [f'<skeleton label={texts[points.category or DEFAULT_CATEGORY]} source="auto" occluded="0" z_order="0">\n']
    for name in names:
        row = rows.get(name)
        x, y = middle if row is None else places[row]
        flags = f'occluded="{int(row is not None and seen[row] == HIDDEN)}" outside="{int(row is None)}"'
        score = "" if scores is None or row is None else f'<attribute name="{CONFIDENCE}">{scores[row]}</attribute>'
        lines.append(f'<points label={texts[name]} source="auto" {flags} points="{x},{y}">{score}</points>\n')
    file.write("".join([*lines, "</skeleton>\n"]))


def write_labels(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write the labels that a task of CVAT needs for these points, for the page `Raw` of its constructor."""
    path.write_text(json.dumps(_labels(annotations), indent=1) + "\n", encoding="utf-8", newline="")


def _labels(annotations: Annotations) -> list[dict[str, Any]]:
    attribute = {"name": CONFIDENCE, "mutable": False, "input_type": "text", "default_value": "", "values": [""]}
    return [
        {
            "name": category,
            "type": "skeleton",
            "attributes": [],
            "svg": _drawing(annotations, category, names),
            "sublabels": [{"name": name, "type": "points", "attributes": [attribute]} for name in names],
        }
        for category, names in annotations.categories.items()
    ]


def _drawing(annotations: Annotations, category: str, names: Sequence[str]) -> str:
    """Return the drawing of a skeleton: its points as in the first object that has all of them, or on a circle."""
    angles = np.arange(len(names)) * 2 * np.pi / len(names)
    places = np.stack([50 + 40 * np.sin(angles), 50 - 40 * np.cos(angles)], axis=1)
    for each in annotations.objects():
        if (each.category or DEFAULT_CATEGORY) == category and set(names) == set(each.names) and all(each.visibility):
            found = each.points[[each.names.index(name) for name in names]]
            places = 10 + 80 * (found - found.min(axis=0)) / max(1e-9, float(np.ptp(found, axis=0).max()))
            break
    ids = {name: number for number, name in enumerate(names, start=1)}
    at = dict(zip(names, places.round(2).tolist(), strict=True))
    lines = [
        f'<line x1="{at[start][0]}" y1="{at[start][1]}" x2="{at[end][0]}" y2="{at[end][1]}" data-type="edge" '
        f'data-node-from="{ids[start]}" data-node-to="{ids[end]}"></line>'
        for start, end in annotations.skeletons.get(category, ())
        if start in ids and end in ids
    ]
    circles = [
        f'<circle r="0.75" cx="{at[name][0]}" cy="{at[name][1]}" data-type="element node" '
        f'data-element-id="{ids[name]}" data-node-id="{ids[name]}" data-label-name={xml_attribute(name)}></circle>'
        for name in names
    ]
    return "\n".join([*lines, *circles])


def _label_element(label: Mapping[str, Any]) -> str:
    name = xml_text(label["name"])
    elements = [f"<label><name>{name}</name><type>skeleton</type><attributes></attributes>"]
    elements.append(f"<svg>{xml_text(label['svg'])}</svg></label>\n")
    attribute = f"<attribute><name>{CONFIDENCE}</name><mutable>False</mutable><input_type>text</input_type>"
    attributes = f"<attributes>{attribute}<default_value></default_value><values></values></attribute></attributes>"
    for each in label["sublabels"]:
        elements.append(f"<label><name>{xml_text(each['name'])}</name><type>points</type>{attributes}")
        elements.append(f"<parent>{name}</parent></label>\n")
    return "".join(elements)


FORMATS.register("cvat-labels")(Format(title="CVAT's labels", file="cvat-labels.json", write=write_labels))
FORMATS.register("cvat")(
    Format(
        title="CVAT",
        file="points.cvat.xml",
        starts=lambda path, opening: opening.lstrip()[:1] == b"<",
        read=read_cvat,
        write=write_cvat,
    )
)
