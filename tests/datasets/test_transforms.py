"""Augmentation moves points with their pixels and keeps left and right apart."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mambamatcher.datasets.photometric import PHOTOMETRIC, photometric
from mambamatcher.datasets.records import AnnotatedImage, has_side, mirror_name
from mambamatcher.datasets.transforms import (
    CROP_MARGIN,
    SMALLEST_CROP,
    Augmentation,
    View,
    mirror,
    random_crop,
)
from mambamatcher.errors import ConfigError

NAMED = {"L_Eye": (12.5, 20.5), "R_Eye": (30.5, 22.5), "Nose": (22.5, 33.5), "Tail": (55.5, 10.5)}


def view(keypoints=NAMED, size=(64, 48), seed=0):
    """Make a view whose pixels at the keypoints have colours of their own."""
    pixels = np.random.default_rng(seed).integers(0, 100, (size[1], size[0], 3), dtype=np.uint8)
    for number, (x, y) in enumerate(keypoints.values()):
        pixels[int(y), int(x)] = 150 + 20 * number
    image = Image.fromarray(pixels)
    return View(image, AnnotatedImage(Path("photo.jpg"), size, "cat", keypoints, (5.0, 5.0, 60.0, 40.0)))


def colours(view, names):
    return [view.image.getpixel(tuple(int(value) for value in view.annotated.keypoints[name])) for name in names]


@pytest.mark.parametrize(
    ("name", "mirrored"),
    [
        ("L_Eye", "R_Eye"),
        ("Right_Wing_Base", "Left_Wing_Base"),
        ("Leg_Left_Back", "Leg_Right_Back"),
        ("left_front_paw", "right_front_paw"),
        ("Bottom_Right", "Bottom_Left"),
        ("left eye", "right eye"),
        ("leftear", "rightear"),
        ("hindPawLeft", "hindPawRight"),
        ("ear.L", "ear.R"),
        ("earL", "earR"),
        ("REar", "LEar"),
        ("r-wing-tip", "l-wing-tip"),
        ("LEFT_HIP", "RIGHT_HIP"),
        ("Lefty", "Lefty"),
        ("Upright", "Upright"),
        ("bright spot", "bright spot"),
        ("L5", "L5"),
        ("Rear_Light", "Rear_Light"),
        ("Nose", "Nose"),
        ("Lower_Neck_Base", "Lower_Neck_Base"),
        ("7", "7"),
    ],
)
def test_mirror_names(name, mirrored):
    assert mirror_name(name) == mirrored
    assert mirror_name(mirrored) == name
    assert has_side(name) == (name != mirrored)


def test_mirroring_swaps_left_and_right_and_moves_points_with_their_pixels():
    before, after = view(), mirror(view())
    assert colours(after, ["R_Eye", "L_Eye", "Nose"]) == colours(before, ["L_Eye", "R_Eye", "Nose"])
    assert after.annotated.bbox == (4.0, 5.0, 59.0, 40.0)
    assert mirror(after).annotated == before.annotated


@pytest.mark.parametrize("names", [("L_Eye", "Nose"), ("Tail",), tuple(NAMED)])
def test_crops_keep_the_shared_keypoints_on_their_pixels_and_are_never_tiny(names):
    before = view()
    sizes = set()
    for seed in range(50):
        after = random_crop(before, names, np.random.default_rng(seed))
        assert colours(after, names) == colours(before, names)
        assert after.image.size == after.annotated.size
        assert all(cut >= SMALLEST_CROP * full for cut, full in zip(after.image.size, before.image.size, strict=True))
        sizes.add(after.image.size)
    assert len(sizes) > 10


def test_crops_keep_the_box_and_without_one_a_margin_around_the_keypoints():
    boxed = view()
    bare = View(boxed.image, replace(boxed.annotated, bbox=None))
    names = tuple(NAMED)
    xs, ys = zip(*(boxed.annotated.keypoints[name] for name in names), strict=True)
    width, height = boxed.image.size
    for seed in range(50):
        left, top, right, bottom = random_crop(boxed, names, np.random.default_rng(seed)).annotated.bbox
        before = boxed.annotated.bbox
        assert (right - left, bottom - top) == (before[2] - before[0], before[3] - before[1])
        cut = random_crop(bare, names, np.random.default_rng(seed)).annotated
        shifted = [cut.keypoints[name] for name in names]
        for axis, low, high, length in ((0, min(xs), max(xs), width), (1, min(ys), max(ys), height)):
            coordinates = [point[axis] for point in shifted]
            assert min(coordinates) >= min(CROP_MARGIN, low)
            assert cut.size[axis] - max(coordinates) >= min(CROP_MARGIN, length - high)


@pytest.mark.parametrize("change", PHOTOMETRIC)
def test_every_photometric_change_alters_the_pixels_and_nothing_else(change):
    before = view().image
    after = change(before, np.random.default_rng(0))
    assert (after.size, after.mode) == (before.size, "RGB")
    assert after.tobytes() != before.tobytes()


def test_photometric_changes_happen_as_often_as_asked():
    before = view().image
    unchanged = sum(
        photometric(before, 0.2, np.random.default_rng(seed)).tobytes() == before.tobytes() for seed in range(400)
    )
    assert unchanged / 400 == pytest.approx(0.8 ** len(PHOTOMETRIC), abs=0.06)


def test_one_image_may_be_mirrored_alone_if_names_tell_sides():
    augment = Augmentation(photometric=0.0, crop=0.0, flip=0.5)
    flips = set()
    for seed in range(40):
        source, target = augment(view(), view(seed=1), np.random.default_rng(seed))
        flips.add((source.annotated.flip, target.annotated.flip))
        for changed, original in ((source, view()), (target, view(seed=1))):
            names = [mirror_name(name) if changed.annotated.flip else name for name in NAMED]
            assert colours(changed, names) == colours(original, list(NAMED))
    assert len(flips) == 4


@pytest.mark.parametrize("names", [("0", "1", "2"), ("L_Eye", "L_Ear", "L_Paw")])
def test_both_images_are_mirrored_together_if_one_alone_would_lose_the_matches(names):
    keypoints = dict(zip(names, NAMED.values(), strict=False))
    augment = Augmentation(photometric=0.0, crop=0.5, flip=0.5)
    for seed in range(40):
        source, target = augment(view(keypoints), view(keypoints), np.random.default_rng(seed))
        assert source.annotated.flip == target.annotated.flip
        assert len(source.annotated.keypoints.keys() & target.annotated.keypoints.keys()) == 3


def test_probabilities_are_probabilities():
    with pytest.raises(ConfigError, match=r"crop .* 1\.5"):
        Augmentation(crop=1.5)
