"""Reading the XML of CVAT: "CVAT for images 1.1" and "CVAT for video 1.1"."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from math import isnan
from pathlib import Path
from sys import intern
from typing import NoReturn
from xml.parsers import expat

from mambamatcher.errors import InputError
from mambamatcher.io.checks import naming
from mambamatcher.io.points.annotations import Annotations, Skeleton
from mambamatcher.io.points.images import UNNAMED_VIDEO, name_frame
from mambamatcher.io.points.point_set import ABSENT, HIDDEN, VISIBLE, PointSet, Size, make_points

CONFIDENCE = "confidence"  # name of the attribute of a point
FRAME_NAME = "frame_{:06d}"  # what CVAT calls a frame of a video
_FRAME = re.compile(r"frame_(\d{6,})\Z")
_TEXTS = ("name", "svg", "source", "attribute")  # elements whose text is read
# without < in a tag and with a limit for a key, each place is looked at once: a damaged drawing takes no longer
_TAG = re.compile(r"<(line|circle)\b([^<>]*)>")
_ATTRIBUTE = re.compile(r"""\bdata-([a-z-]{1,30})=(?:"([^"]*)"|'([^']*)')""")


@dataclass
class _Shape:
    """A skeleton as it is read, or points outside a skeleton that have the same group."""

    category: str | None
    frame: str | None  # of a video
    places: list[tuple[float, float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class CvatReader:
    """Receives the elements of a file one by one, so that a large file is never whole in memory."""

    def __init__(self) -> None:
        self._images: dict[str | None, list[PointSet]] = {}
        self._skeletons: dict[str, Skeleton] = {}
        self._root = ""
        self._video: str | None = None
        self._image: str | None = None
        self._size: Size | None = None
        self._track_label: str | None = None
        self._skeleton: _Shape | None = None
        self._loose: dict[tuple[str | None, str], _Shape] = {}
        self._scores: list[float] = []  # of the shape that the last point belongs to
        self._label_name = ""
        self._is_in_attribute = False
        self._attribute: str | None = None
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = _refuse_definitions
        self._parser.EntityDeclHandler = _refuse_definitions

    def read(self, path: Path) -> Annotations:
        """Read a file; a shape of another kind than points is skipped."""
        with path.open("rb") as file:
            try:
                self._parser.ParseFile(file)
            except expat.ExpatError as error:
                raise InputError(f"it is damaged, or not XML: {error}") from error
            except (LookupError, TypeError, ValueError):
                with naming(f"line {self._parser.CurrentLineNumber}"):
                    raise
        return Annotations(images=self._images, skeletons=self._skeletons)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._root:
            self._root = tag
            if tag != "annotations":
                raise InputError(f"its first element is <{tag:.60}>, and CVAT writes <annotations>")
        if tag == "points":
            self._add_point(attributes)
        elif tag == "skeleton":
            self._skeleton = _Shape(self._label_of(attributes), attributes.get("frame"))
        elif tag == "image":
            self._image, self._size = self._image_name(attributes["name"]), _size_of(attributes)
            if self._image in self._images:
                raise InputError(f"two images are named {self._image!r:.60}")
        elif tag == "track":
            self._track_label, self._size = attributes["label"], None
        elif tag == "attribute":
            self._is_in_attribute = True
        if tag in _TEXTS:
            self._attribute, self._text = attributes.get("name"), []
            self._parser.CharacterDataHandler = self._text.append

    def _end(self, tag: str) -> None:
        if tag in _TEXTS:
            self._parser.CharacterDataHandler = None
            self._take_text(tag, "".join(self._text))
            self._is_in_attribute &= tag != "attribute"
        elif tag == "skeleton" and self._skeleton is not None:
            self._finish(self._skeleton)
            self._skeleton = None
        elif tag in ("image", "track"):
            for shape in self._loose.values():
                self._finish(shape)
            self._loose, self._image, self._track_label = {}, None, None

    def _take_text(self, tag: str, text: str) -> None:
        if tag == "attribute" and self._attribute == CONFIDENCE and self._scores and text.strip():
            self._scores[-1] = float(text)
        elif tag == "source":
            self._video = text
        elif tag == "name" and not self._is_in_attribute:
            self._label_name = text
        elif tag == "svg" and (edges := _edges(text)):
            self._skeletons[self._label_name] = edges

    def _image_name(self, name: str) -> str:
        frame = _FRAME.match(name)
        return name if frame is None or self._video is None else name_frame(self._video, int(frame[1]))

    def _label_of(self, attributes: Mapping[str, str]) -> str:
        label = attributes.get("label", self._track_label)
        if label is None:
            raise KeyError("label")
        return intern(label)

    def _add_point(self, attributes: Mapping[str, str]) -> None:
        if self._image is None and self._track_label is None:
            raise InputError("points belong to no image")
        name = self._label_of(attributes)
        shape = self._skeleton
        if shape is None:
            frame = attributes.get("frame")
            shape = self._loose.setdefault((frame, attributes.get("group_id", "")), _Shape(None, frame))
        places = attributes["points"].split(";")
        if len(places) != 1:
            raise InputError(f"{name!r:.60} has {len(places)} places; use a skeleton, or a label for each point")
        x, y = places[0].split(",")
        shape.places.append((float(x), float(y)))
        shape.names.append(name)
        shape.seen.append(
            ABSENT if attributes.get("outside") == "1" else HIDDEN if attributes.get("occluded") == "1" else VISIBLE
        )
        shape.scores.append(float("nan"))
        self._scores = shape.scores

    def _finish(self, shape: _Shape) -> None:
        if shape.frame is None and self._image is None:
            raise KeyError("frame")
        image = self._image if shape.frame is None else name_frame(self._video or UNNAMED_VIDEO, int(shape.frame))
        if not any(shape.seen):
            return
        scores = [0.0 if seen == ABSENT else score for seen, score in zip(shape.seen, shape.scores, strict=True)]
        sure = None if any(map(isnan, scores)) else scores
        found = make_points(shape.places, shape.names, shape.seen, sure, self._size, shape.category)
        self._images.setdefault(image, []).append(found)


def _refuse_definitions(*_: object) -> NoReturn:
    raise InputError("it defines entities or a document type, which no file of CVAT does and which is not read")


def _size_of(attributes: Mapping[str, str]) -> Size | None:
    if "width" not in attributes or "height" not in attributes:
        return None
    return int(attributes["width"]), int(attributes["height"])


def _edges(svg: str) -> Skeleton:
    """Return which points the lines of a label's drawing join; lines name circles, and circles name points."""
    names: dict[str, str] = {}
    lines: list[tuple[str, str]] = []
    for tag, text in _TAG.findall(svg):
        found = {key: unescape(first or second) for key, first, second in _ATTRIBUTE.findall(text)}
        if tag == "line":
            lines.append((found.get("node-from", ""), found.get("node-to", "")))
        elif "label-name" in found:
            names[found.get("node-id", "")] = found["label-name"]
    return tuple((names[start], names[end]) for start, end in lines if start in names and end in names)
