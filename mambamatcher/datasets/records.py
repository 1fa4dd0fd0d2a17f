"""What every benchmark is read into: annotated images and pairs of them, all in original pixels, always (x, y)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path

import numpy as np
from PIL import Image

from mambamatcher.datasets.left_right import mirror_name
from mambamatcher.errors import InputError

Point = tuple[float, float]
Size = tuple[int, int]
Box = tuple[float, float, float, float]

# VOC counts pixels from one and some releases round, so a box may stick out this far and still be right
BOX_TOLERANCE = 2.0


@dataclass(frozen=True, slots=True)
class AnnotatedImage:
    """One picture, its `(width, height)` and the keypoints that can be seen in it; absent keypoints are not listed.

    `flip` says that the pixels are to be mirrored after decoding; keypoints and box already are those of the mirrored
    picture. A rendered picture is carried along in `picture`; its path is only a name.
    """

    path: Path
    size: Size
    category: str
    keypoints: Mapping[str, Point]
    bbox: Box | None = None
    flip: bool = False
    picture: Image.Image | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.category, str):
            raise InputError(f"{self.path}: the category must be text, got {self.category!r}")
        for text in (str(self.path), self.category, *self.keypoints):
            _check_text(text)
        if min(self.size) < 1:
            raise InputError(f"{self.path}: the image has no pixels, size {self.size}")
        if not all(isfinite(x) and isfinite(y) for x, y in self.keypoints.values()):
            raise InputError(f"{self.path}: a keypoint is not a finite number")
        if self.bbox is not None:
            _check_box(self.bbox, self.size, self.path)

    def mirrored(self) -> "AnnotatedImage":
        """Return the annotation of the picture seen in a mirror: left names become right names and the reverse."""
        width = self.size[0]
        keypoints = {mirror_name(name): (width - x, y) for name, (x, y) in self.keypoints.items()}
        bbox = self.bbox and (width - self.bbox[2], self.bbox[1], width - self.bbox[0], self.bbox[3])
        return replace(self, keypoints=keypoints, bbox=bbox, flip=not self.flip)


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and a target picture of one category that share at least one keypoint.

    `variation` holds the grades the benchmark gives (viewpoint, scale, truncation, occlusion, mirror), where it does.
    """

    name: str
    source: AnnotatedImage
    target: AnnotatedImage
    category: str
    variation: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"the name of a pair must be text, got {self.name!r}")
        _check_text(self.name)
        if not self.names:
            raise InputError(f"{self.name}: {self.source.path} and {self.target.path} share no keypoint")

    @property
    def names(self) -> tuple[str, ...]:
        """The keypoints both pictures show, in the order of the source."""
        return shared_names(self.source, self.target)

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the shared keypoints of source and target, each `[keypoint, 2]` in original pixels."""
        names = self.names
        source = np.array([self.source.keypoints[name] for name in names], dtype=np.float64)
        return source, np.array([self.target.keypoints[name] for name in names], dtype=np.float64)


def shared_names(source: AnnotatedImage, target: AnnotatedImage) -> tuple[str, ...]:
    """Return the keypoints both pictures show, in the order of the source."""
    return tuple(name for name in source.keypoints if name in target.keypoints)


def _check_text(text: str) -> None:
    """Refuse half a character, which JSON can hold and no file can."""
    try:
        text.encode("utf-8", "surrogateescape")  # as file names are read
    except UnicodeEncodeError as error:
        raise InputError(f"the name {text!a} holds half a character (a surrogate), so it cannot be written") from error


def _check_box(box: Box, size: Size, path: Path) -> None:
    left, top, right, bottom = box
    if not (left < right and top < bottom):
        raise InputError(f"{path}: the box {box} is empty or not written as (x1, y1, x2, y2)")
    out = max(-left, -top, right - size[0], bottom - size[1])
    if not out <= BOX_TOLERANCE:
        raise InputError(f"{path}: the box {box} lies outside the {size[0]}x{size[1]} image")
