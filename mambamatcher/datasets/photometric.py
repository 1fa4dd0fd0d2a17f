"""Photometric changes of training images: the operations and ranges of Albumentations, as TransforMatcher uses them.

All are computed with Pillow. Tests compare each with Albumentations' own function.
"""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

Generator = np.random.Generator
Photo = Image.Image

POSTERISED_BITS = 4
SOLARISED_FROM = 128
SHARPEN_ALPHA, SHARPEN_LIGHTNESS = (0.2, 0.5), (0.5, 1.0)
BRIGHTNESS_LIMIT, CONTRAST_LIMIT = (-0.2, 0.2), (-0.2, 0.2)
JITTER = (0.8, 1.2)  # of brightness, contrast and saturation
JITTER_HUE = (-0.2, 0.2)  # of the circle: the default when TransforMatcher was written, ±0.5 since Albumentations 1.4


def photometric(image: Photo, probability: float, generator: Generator) -> Photo:
    """Apply each photometric change with the same probability."""
    for change in PHOTOMETRIC:
        if generator.random() < probability:
            image = change(image, generator)
    return image


def grey(image: Photo, generator: Generator) -> Photo:
    """Remove the colours."""
    return ImageOps.grayscale(image).convert("RGB")


def posterise(image: Photo, generator: Generator) -> Photo:
    """Keep the highest bits of each channel."""
    return ImageOps.posterize(image, POSTERISED_BITS)


def equalise(image: Photo, generator: Generator) -> Photo:
    """Equalise the histogram of each channel."""
    return ImageOps.equalize(image)


def sharpen(image: Photo, generator: Generator) -> Photo:
    """Mix in an edge filter of random strength."""
    return sharpened(image, generator.uniform(*SHARPEN_ALPHA), generator.uniform(*SHARPEN_LIGHTNESS))


def sharpened(image: Photo, alpha: float, lightness: float) -> Photo:
    """Mix the share `alpha` of an edge filter with the image. The outermost pixels stay as they are."""
    weights = [-alpha] * 9
    weights[4] = (1 - alpha) + alpha * (8 + lightness)
    return image.filter(ImageFilter.Kernel((3, 3), weights, scale=1))


def brightness_contrast(image: Photo, generator: Generator) -> Photo:
    """Scale the values and add a constant."""
    return scaled(image, 1 + generator.uniform(*CONTRAST_LIMIT), 255 * generator.uniform(*BRIGHTNESS_LIMIT))


def scaled(image: Photo, factor: float, added: float) -> Photo:
    """Return `factor` times each value plus `added`, clipped."""
    table = np.clip(np.arange(256) * factor + added, 0, 255).astype(int).tolist()
    return image.point(table * len(image.getbands()))


def solarise(image: Photo, generator: Generator) -> Photo:
    """Invert the brighter half of the values of each channel."""
    return ImageOps.solarize(image, SOLARISED_FROM)


def colour_jitter(image: Photo, generator: Generator) -> Photo:
    """Change brightness, contrast, saturation and hue, in a random order."""
    for index in generator.permutation(len(JITTERS)):
        change, limits = JITTERS[index]
        image = change(image, generator.uniform(*limits))
    return image


def with_brightness(image: Photo, factor: float) -> Photo:
    """Scale all values."""
    return ImageEnhance.Brightness(image).enhance(factor)


def with_contrast(image: Photo, factor: float) -> Photo:
    """Scale the distances of all values from the mean grey of the image."""
    return ImageEnhance.Contrast(image).enhance(factor)


def with_saturation(image: Photo, factor: float) -> Photo:
    """Scale the distances of all values from the grey of their pixel."""
    return ImageEnhance.Color(image).enhance(factor)


def with_hue(image: Photo, turn: float) -> Photo:
    """Rotate the hue by a share of the circle."""
    hue, saturation, value = image.convert("HSV").split()
    turned = hue.point([round(level + 256 * turn) % 256 for level in range(256)])
    return Image.merge("HSV", (turned, saturation, value)).convert("RGB")


JITTERS: tuple[tuple[Callable[[Photo, float], Photo], tuple[float, float]], ...] = (
    (with_brightness, JITTER),
    (with_contrast, JITTER),
    (with_saturation, JITTER),
    (with_hue, JITTER_HUE),
)

PHOTOMETRIC: tuple[Callable[[Photo, Generator], Photo], ...] = (
    grey,
    posterise,
    equalise,
    sharpen,
    brightness_contrast,
    solarise,
    colour_jitter,
)
