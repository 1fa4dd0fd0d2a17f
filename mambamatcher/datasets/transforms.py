"""Augmentation of training pairs: photometric changes, crops that keep the object, and mirroring.

The choices are those of CATs and TransforMatcher, each photometric change with probability 0.2 and the crop with 0.5.
All randomness comes from the generator passed in, so a sample depends on its seed and on nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from mambamatcher.datasets.left_right import tells_sides
from mambamatcher.datasets.records import AnnotatedImage, Box, shared_names
from mambamatcher.datasets.sampling import SHARED
from mambamatcher.errors import ConfigError

# a crop keeps at least this share of each side: keypoints close together would otherwise leave a few blurred pixels
SMALLEST_CROP = 0.3
CROP_MARGIN = 20.0  # pixels around the keypoints of an image without a box

Generator = np.random.Generator
Photo = Image.Image


@dataclass(frozen=True)
class View:
    """A decoded picture and its annotation, changed together."""

    image: Photo
    annotated: AnnotatedImage


@dataclass(frozen=True, kw_only=True, slots=True)
class Augmentation:
    """How often each change is made to a training pair."""

    photometric: float = 0.2
    crop: float = 0.5
    flip: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is a probability, got {getattr(self, name)}")

    def __call__(self, source: View, target: View, generator: Generator) -> tuple[View, View]:
        """Change both views of a pair, independently of each other as far as their keypoints stay matched."""
        source, target = self._mirrored(source, target, generator)
        names = _shared(source, target)
        return self._changed(source, names, generator), self._changed(target, names, generator)

    def group(self, views: Sequence[View], generator: Generator) -> list[View]:
        """Change pictures that are all compared with each other; a crop keeps all of a picture's own keypoints.

        The first two must stay a pair: they are mirrored together where they would not be one otherwise.
        """
        first, second = self._mirrored(views[0], views[1], generator)
        rest = []
        for view in views[2:]:
            flip = generator.random() < self.flip and tells_sides(tuple(view.annotated.keypoints))
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
        # unnamed keypoints may be left and right ones, and two side views may match on one side only: both go together
        apart = tells_sides(before) and len(_shared(first, second)) >= min(SHARED, len(before))
        if flips[0] == flips[1] or apart:
            return first, second
        return first, mirror(target) if flips[0] else target


def mirror(view: View) -> View:
    """Mirror the picture; left and right keypoints change names."""
    return View(ImageOps.mirror(view.image), view.annotated.mirrored())


def random_crop(view: View, names: tuple[str, ...], generator: Generator) -> View:
    """Cut out a random part that keeps the object: its box, or the named keypoints with a margin where it has none.

    Named keypoints that lie in the image stay in it.
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
    """Return the least part of an image that a crop keeps; CATs keeps the box, TransforMatcher 20 pixels of margin."""
    points = np.array([annotated.keypoints[name] for name in names])
    low, high = points.min(axis=0), points.max(axis=0)
    if annotated.bbox is None:
        return (*(low - CROP_MARGIN), *(high + CROP_MARGIN))
    return (*np.minimum(low, annotated.bbox[:2]), *np.maximum(high, annotated.bbox[2:]))


def crop(view: View, window: tuple[int, int, int, int]) -> View:
    """Cut the picture to a window; keypoints outside it are dropped and the box is cut to it."""
    left, top, right, bottom = window
    size = right - left, bottom - top
    moved = {name: (x - left, y - top) for name, (x, y) in view.annotated.keypoints.items()}
    inside = {name: (x, y) for name, (x, y) in moved.items() if 0 <= x <= size[0] and 0 <= y <= size[1]}
    annotated = replace(
        view.annotated, size=size, keypoints=inside, bbox=view.annotated.bbox and _cut(view.annotated.bbox, window)
    )
    return View(view.image.crop(window), annotated)


def photometric(image: Photo, probability: float, generator: Generator) -> Photo:
    """Apply each photometric change with the same probability."""
    for change in PHOTOMETRIC:
        if generator.random() < probability:
            image = change(image, generator)
    return image


def photometric_tensor(
    image: UInt8[Tensor, "3 height width"], probability: float, generator: Generator
) -> UInt8[Tensor, "3 height width"]:
    """Apply the photometric changes to a picture held as a tensor."""
    changed = photometric(Image.fromarray(image.permute(1, 2, 0).numpy()), probability, generator)
    return torch.from_numpy(np.array(changed)).permute(2, 0, 1).contiguous()


def _grey(image: Photo, generator: Generator) -> Photo:
    return ImageOps.grayscale(image).convert("RGB")


def _posterise(image: Photo, generator: Generator) -> Photo:
    return ImageOps.posterize(image, 4)


def _equalise(image: Photo, generator: Generator) -> Photo:
    return ImageOps.equalize(image)


def _sharpen(image: Photo, generator: Generator) -> Photo:
    return ImageEnhance.Sharpness(image).enhance(generator.uniform(1.5, 3.0))


def _brightness_contrast(image: Photo, generator: Generator) -> Photo:
    image = ImageEnhance.Brightness(image).enhance(generator.uniform(0.8, 1.2))
    return ImageEnhance.Contrast(image).enhance(generator.uniform(0.8, 1.2))


def _solarise(image: Photo, generator: Generator) -> Photo:
    return ImageOps.solarize(image, 128)


def _colour_jitter(image: Photo, generator: Generator) -> Photo:
    hue, saturation, value = image.convert("HSV").split()
    turn = int(generator.integers(-51, 52))  # a fifth of the circle either way
    image = Image.merge("HSV", (hue.point([(level + turn) % 256 for level in range(256)]), saturation, value))
    image = ImageEnhance.Color(image.convert("RGB")).enhance(generator.uniform(0.8, 1.2))
    return _brightness_contrast(image, generator)


PHOTOMETRIC: tuple[Callable[[Photo, Generator], Photo], ...] = (
    _grey,
    _posterise,
    _equalise,
    _sharpen,
    _brightness_contrast,
    _solarise,
    _colour_jitter,
)


def _cut(box: Box, window: tuple[int, int, int, int]) -> Box | None:
    width, height = window[2] - window[0], window[3] - window[1]
    left, top = max(0.0, box[0] - window[0]), max(0.0, box[1] - window[1])
    right, bottom = min(float(width), box[2] - window[0]), min(float(height), box[3] - window[1])
    return (left, top, right, bottom) if left < right and top < bottom else None


def _shared(source: View, target: View) -> tuple[str, ...]:
    return shared_names(source.annotated, target.annotated)
