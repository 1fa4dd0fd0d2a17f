"""The photometric changes are those of Albumentations, which CATs and TransforMatcher train with."""

import os

import numpy as np
import pytest
from PIL import Image

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # its import would ask the network for a newer version
import albumentations
from albumentations.augmentations.pixel import functional as theirs

from mambamatcher.datasets import photometric as ours
from mambamatcher.model.saved import SHIPPED

RNG = np.random.default_rng(0)
PHOTO = Image.open(SHIPPED["lite"].parent / "photos" / "cat.jpg").convert("RGB").resize((160, 120))
PIXELS = np.asarray(PHOTO)


def assert_near(image: Image.Image, expected: np.ndarray, *, most: int, mean: float) -> None:
    """Compare pixels: the largest and the mean difference, in levels of 256."""
    difference = np.abs(np.asarray(image).astype(int) - expected.astype(int))
    assert difference.max() <= most
    assert difference.mean() <= mean


def test_grey():
    assert_near(ours.grey(PHOTO, RNG), theirs.to_gray(PIXELS, 3, "weighted_average"), most=1, mean=0.5)


def test_posterise_keeps_as_many_bits():
    bits = albumentations.Posterize().num_bits[0]
    assert_near(ours.posterise(PHOTO, RNG), theirs.posterize(PIXELS.copy(), bits), most=0, mean=0)


def test_solarise_inverts_from_the_same_value():
    threshold = albumentations.Solarize().threshold_range[0]
    assert_near(ours.solarise(PHOTO, RNG), theirs.solarize(PIXELS.copy(), threshold), most=0, mean=0)


def test_equalise_each_channel():
    default = albumentations.Equalize()
    expected = theirs.equalize(PIXELS.copy(), mode=default.mode, by_channels=default.by_channels)
    # Pillow and OpenCV round the cumulative histogram differently
    assert_near(ours.equalise(PHOTO, RNG), expected, most=4, mean=2.0)


@pytest.mark.parametrize(("alpha", "lightness"), [(0.2, 0.5), (0.35, 0.8), (0.5, 1.0)])
def test_sharpen_all_but_the_outermost_pixels(alpha, lightness):
    fixed = albumentations.Sharpen(alpha=(alpha, alpha), lightness=(lightness, lightness), p=1.0)
    expected = fixed(image=PIXELS)["image"][1:-1, 1:-1]
    assert_near(ours.sharpened(PHOTO, alpha, lightness).crop((1, 1, 159, 119)), expected, most=1, mean=0.5)


@pytest.mark.parametrize(("contrast", "brightness"), [(-0.2, 0.2), (0.1, -0.15), (0.2, 0.2), (0.0, 0.1)])
def test_brightness_and_contrast(contrast, brightness):
    fixed = albumentations.RandomBrightnessContrast(
        brightness_limit=(brightness, brightness), contrast_limit=(contrast, contrast), p=1.0
    )
    expected = fixed(image=PIXELS)["image"]
    assert_near(ours.scaled(PHOTO, 1 + contrast, 255 * brightness), expected, most=1, mean=0.5)


@pytest.mark.parametrize(
    ("name", "factor", "most", "mean"),
    [
        ("brightness", 0.8, 1, 0.6),
        ("brightness", 1.2, 1, 0.6),
        ("contrast", 0.8, 1, 0.6),
        ("contrast", 1.2, 1, 0.6),
        ("saturation", 0.8, 1, 0.6),
        ("saturation", 1.2, 1, 0.6),
        # Pillow has 256 hues and OpenCV 180, so both round differently
        ("hue", -0.2, 12, 2.0),
        ("hue", 0.1, 12, 2.0),
        ("hue", 0.2, 12, 2.0),
    ],
)
def test_each_part_of_the_colour_jitter(name, factor, most, mean):
    expected = getattr(theirs, f"adjust_{name}_torchvision")(PIXELS.copy(), factor)
    assert_near(getattr(ours, f"with_{name}")(PHOTO, factor), expected, most=most, mean=mean)


def test_the_ranges_are_albumentations_defaults_but_for_the_hue_which_has_been_widened_since():
    sharpen, jitter = albumentations.Sharpen(), albumentations.ColorJitter()
    both = albumentations.RandomBrightnessContrast()
    assert (sharpen.alpha, sharpen.lightness) == (ours.SHARPEN_ALPHA, ours.SHARPEN_LIGHTNESS)
    assert (both.brightness_limit, both.contrast_limit) == (ours.BRIGHTNESS_LIMIT, ours.CONTRAST_LIMIT)
    assert jitter.brightness == jitter.contrast == jitter.saturation == ours.JITTER
    assert ours.JITTER_HUE == (-0.2, 0.2)
    assert jitter.hue == (-0.5, 0.5)


def test_the_jitters_come_in_every_order(monkeypatch):
    seen = []
    recorders = tuple((lambda image, _, name=name: seen.append(name) or image, (0, 1)) for name in "abcd")
    monkeypatch.setattr(ours, "JITTERS", recorders)
    for seed in range(200):
        ours.colour_jitter(PHOTO, np.random.default_rng(seed))
    orders = {tuple(seen[first : first + 4]) for first in range(0, len(seen), 4)}
    assert len(orders) == 24
