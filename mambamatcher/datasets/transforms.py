"""Augmentation of training pairs: photometric changes, crops that keep the object, and mirroring.

As in CATs and TransforMatcher, each photometric change has probability 0.2 and the crop 0.5. All randomness comes from
the generator that is passed in, so a sample depends only on its seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np
from PIL import ImageOps

from mambamatcher.datasets.photometric import Generator, Photo, photometric
from mambamatcher.datasets.records import AnnotatedImage, Box, are_named, shared_names
from mambamatcher.datasets.sampling import SHARED
from mambamatcher.errors import ConfigError

# a crop keeps at least this share of each side: keypoints close together would otherwise leave only a few pixels
SMALLEST_CROP = 0.3
CROP_MARGIN = 20.0  # pixels around the keypoints of an image without a box


@dataclass(frozen=True)
class View:
    """An image and its annotation, which change together."""

    image: Photo
    annotated: AnnotatedImage


@dataclass(frozen=True, kw_only=True, slots=True)
class Augmentation:
    """Probabilities of the changes to an image.

    Attributes:
        photometric: Of each photometric change.
        crop: Of a crop.
        flip: Of mirroring.
    """

    photometric: float = 0.2
    crop: float = 0.5
    flip: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is a probability, got {getattr(self, name)}")

    def __call__(self, source: View, target: View, generator: Generator) -> tuple[View, View]:
        """Augment both images of a pair, independently as long as they still share keypoints."""
        source, target = self._mirrored(source, target, generator)
        names = _shared(source, target)
        return self._changed(source, names, generator), self._changed(target, names, generator)

    def group(self, views: Sequence[View], generator: Generator) -> list[View]:
        """Augment images that are all matched with each other. A crop keeps all keypoints of its image.

        The first two images must remain a pair, so they are mirrored together where they would not share enough
        keypoints otherwise.
        """
        first, second = self._mirrored(views[0], views[1], generator)
        rest = []
        for view in views[2:]:
            flip = generator.random() < self.flip and are_named(tuple(view.annotated.keypoints))
            rest.append(mirror(view) if flip else view)
        return [self._changed(view, tuple(view.annotated.keypoints), generator) for view in (first, second, *rest)]

    def _changed(self, view: View, names: tuple[str, ...], generator: Generator) -> View:
        if generator.random() < self.crop:
            view = random_crop(view, names, generator)
        return replace(view, image=photometric(view.image, self.photometric, generator))

    def _mirrored(self, source: View, target: View, generator: Generator) -> tuple[View, View]:
        flips = generator.random(2) < self.flip
        before = _shared(source, target)
        first = mirror(source) if flips[0] else source
        second = mirror(target) if flips[1] else target
        # numbered keypoints may have sides, and two side views may share keypoints of one side only: mirror both then
        independent = are_named(before) and len(_shared(first, second)) >= min(SHARED, len(before))
        if flips[0] == flips[1] or independent:
            return first, second
        return first, mirror(target) if flips[0] else target


def mirror(view: View) -> View:
    """Mirror an image. Left and right keypoints exchange their names."""
    return View(ImageOps.mirror(view.image), view.annotated.mirrored())


def random_crop(view: View, names: tuple[str, ...], generator: Generator) -> View:
    """Crop at random around the object: its box, or the named keypoints with a margin if it has none.

    Named keypoints inside the image stay inside.
    """
    left, top, right, bottom = _kept(view.annotated, names)
    spans = []
    for first, last, length in ((left, right, view.annotated.size[0]), (top, bottom, view.annotated.size[1])):
        first, last = np.clip((first, last), 0, length)
        shortest = ceil(SMALLEST_CROP * length)
        high = ceil(generator.uniform(last, length))
        low = max(0, min(floor(generator.uniform(0, first)), high - shortest))
        spans.append((low, max(high, low + shortest)))
    (left, right), (top, bottom) = spans
    return crop(view, (left, top, right, bottom))


def _kept(annotated: AnnotatedImage, names: tuple[str, ...]) -> Box:
    """Return the region that every crop keeps. CATs keeps the box, TransforMatcher a margin of 20 pixels."""
    points = np.array([annotated.keypoints[name] for name in names])
    low, high = points.min(axis=0), points.max(axis=0)
    if annotated.bbox is None:
        return (*(low - CROP_MARGIN), *(high + CROP_MARGIN))
    return (*np.minimum(low, annotated.bbox[:2]), *np.maximum(high, annotated.bbox[2:]))


def crop(view: View, window: tuple[int, int, int, int]) -> View:
    """Crop an image to a window. Keypoints outside are dropped and the box is clipped."""
    left, top, right, bottom = window
    size = right - left, bottom - top
    moved = {name: (x - left, y - top) for name, (x, y) in view.annotated.keypoints.items()}
    inside = {name: (x, y) for name, (x, y) in moved.items() if 0 <= x <= size[0] and 0 <= y <= size[1]}
    annotated = replace(
        view.annotated, size=size, keypoints=inside, bbox=view.annotated.bbox and _clip(view.annotated.bbox, window)
    )
    return View(view.image.crop(window), annotated)


def _clip(box: Box, window: tuple[int, int, int, int]) -> Box | None:
    width, height = window[2] - window[0], window[3] - window[1]
    left, top = max(0.0, box[0] - window[0]), max(0.0, box[1] - window[1])
    right, bottom = min(float(width), box[2] - window[0]), min(float(height), box[3] - window[1])
    return (left, top, right, bottom) if left < right and top < bottom else None


def _shared(source: View, target: View) -> tuple[str, ...]:
    return shared_names(source.annotated, target.annotated)
