"""Annotated images and pairs: what every benchmark is read into. Coordinates are (x, y) in original pixels."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path

import numpy as np
from PIL import Image

from mambamatcher.errors import InputError

Point = tuple[float, float]
Size = tuple[int, int]
Box = tuple[float, float, float, float]

# VOC counts pixels from one and some releases round, so a correct box may extend this far beyond its image
BOX_TOLERANCE = 2.0
RENDERED = 8  # pairs that stand for all that were rendered from a seed
_PAIRED = (("L", "R"), ("l", "r"), ("Left", "Right"), ("left", "right"), ("LEFT", "RIGHT"))
_MIRRORED = dict(_PAIRED) | {right: left for left, right in _PAIRED}
# a word at the start of the name or after a sign, or a capitalised one after a small letter; a letter alone
_SIDE = re.compile(
    r"(?<![A-Za-z])(?:left|right|(?:Left|Right|LEFT|RIGHT)(?![a-z]))|(?<=[a-z])(?:Left|Right)(?![a-z])"
    r"|(?<![A-Za-z0-9])(?:[LlRr](?![A-Za-z0-9])|[LR](?=[A-Z][a-z]))|(?<=[a-z])[LR](?![A-Za-z0-9])"
)


@dataclass(frozen=True, slots=True)
class AnnotatedImage:
    """An image with its annotation.

    Attributes:
        path: The image file. For a rendered image it is only a name.
        size: `(width, height)` in pixels.
        category: Category of the object.
        keypoints: Visible keypoints by name. Absent keypoints are not listed.
        bbox: Box of the object, `(x1, y1, x2, y2)`, if the benchmark gives one.
        flip: Whether pixels are mirrored after decoding. Keypoints and box are those of the mirrored image.
        rendered: Pixels of a rendered image, which has no file.
    """

    path: Path
    size: Size
    category: str
    keypoints: Mapping[str, Point]
    bbox: Box | None = None
    flip: bool = False
    rendered: Image.Image | None = field(default=None, repr=False, compare=False)

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
        """Return the annotation of the mirrored image. Left and right keypoints exchange their names."""
        width = self.size[0]
        keypoints = {mirror_name(name): (width - x, y) for name, (x, y) in self.keypoints.items()}
        bbox = self.bbox and (width - self.bbox[2], self.bbox[1], width - self.bbox[0], self.bbox[3])
        return replace(self, keypoints=keypoints, bbox=bbox, flip=not self.flip)


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and a target image that share at least one keypoint.

    Attributes:
        name: Unique name within its split.
        source: Source image.
        target: Target image.
        category: What results are grouped by.
        variation: Difficulty grades (viewpoint, scale, truncation, occlusion, mirror), if the benchmark gives them.
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
        """Names of the keypoints that both images show, in the order of the source."""
        return shared_names(self.source, self.target)

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the shared keypoints of source and target, each `[keypoint, 2]` in original pixels."""
        names = self.names
        source = np.array([self.source.keypoints[name] for name in names], dtype=np.float64)
        return source, np.array([self.target.keypoints[name] for name in names], dtype=np.float64)


def shared_names(source: AnnotatedImage, target: AnnotatedImage) -> tuple[str, ...]:
    """Return the names of the keypoints that both images show, in the order of the source."""
    return tuple(name for name in source.keypoints if name in target.keypoints)


def mirror_name(name: str) -> str:
    """Return the name that a keypoint has in a mirrored image. Names without a side do not change.

    Example:
        >>> mirror_name("L_Eye"), mirror_name("Leg_Right_Back"), mirror_name("left ear"), mirror_name("Nose")
        ('R_Eye', 'Leg_Left_Back', 'right ear', 'Nose')
    """
    return _SIDE.sub(lambda found: _MIRRORED[found[0]], name)


def has_side(name: str) -> bool:
    """Return whether the name of a keypoint says left or right."""
    return mirror_name(name) != name


def are_named(names: tuple[str, ...]) -> bool:
    """Return whether keypoints have real names. Bare numbers may hide a left and a right one."""
    return not any(name.isdigit() for name in names)


def fingerprint(pairs: Sequence[Pair]) -> str:
    """Return a hash of names, annotations and image files. It does not depend on the folder they are in.

    Of pairs that are rendered from a seed, the first few and their number stand for all: to render a whole split would
    take longer than to evaluate a part of it.
    """
    digest = sha256()
    seen = set()
    if pairs and pairs[0].source.rendered is not None:
        digest.update(str(len(pairs)).encode())
        pairs = pairs[:RENDERED]
    for pair in pairs:
        content = [pair.name, pair.category, _annotation(pair.source), _annotation(pair.target), dict(pair.variation)]
        digest.update(json.dumps(content, sort_keys=True).encode())
        for image in (pair.source, pair.target):
            if image.path not in seen:
                seen.add(image.path)
                digest.update(image.path.read_bytes() if image.rendered is None else image.rendered.tobytes())
    return digest.hexdigest()[:16]


def _annotation(image: AnnotatedImage) -> list[object]:
    return [image.path.name, image.size, dict(image.keypoints), image.bbox, image.flip]


def _check_text(text: str) -> None:
    """Refuse lone surrogates, which JSON can hold but no UTF-8 file."""
    try:
        text.encode("utf-8", "surrogateescape")  # file names may hold undecodable bytes
    except UnicodeEncodeError as error:
        raise InputError(f"the name {text!a} holds a lone surrogate, so it cannot be written; rename it") from error


def _check_box(box: Box, size: Size, path: Path) -> None:
    left, top, right, bottom = box
    if not (left < right and top < bottom):
        raise InputError(f"{path}: the box {box} is empty or not written as (x1, y1, x2, y2)")
    out = max(-left, -top, right - size[0], bottom - size[1])
    if not out <= BOX_TOLERANCE:
        raise InputError(f"{path}: the box {box} lies outside the {size[0]}x{size[1]} image")
