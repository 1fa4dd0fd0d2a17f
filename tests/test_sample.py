import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mambamatcher
from mambamatcher import Matcher
from mambamatcher.datasets.synthetic import sample_pair
from mambamatcher.io.points import check_points, read_points

SAMPLE = Path(mambamatcher.__file__).parent / "assets" / "sample"
PHOTOS = Path(mambamatcher.__file__).parent / "assets" / "photos"

# marked by hand on the targets, in pixels, with a quarter of the distance between the eyes
ON_TARGET = {
    ("cat", "raccoon"): ({"left eye": (564, 260), "right eye": (451, 239), "nose": (485, 354)}, 29),
    ("grace-hopper", "eileen-collins"): ({"left eye": (247, 103), "right eye": (204, 101), "nose": (225, 128)}, 11),
}


def test_the_shipped_sample_is_what_the_package_renders():
    pair = sample_pair()
    for name, view in (("source", pair.source), ("target", pair.target)):
        shipped = np.asarray(Image.open(SAMPLE / f"{name}.png")).astype(int)
        assert np.abs(shipped - view.image).mean() < 0.5  # rounding may differ between machines


def test_nearest_neighbours_with_imagenet_weights_find_most_of_the_sample():
    points = json.loads((SAMPLE / "points.json").read_text())
    result = Matcher.from_preset("nearest").match(SAMPLE / "source.png", SAMPLE / "target.png", points["points"])
    error = np.linalg.norm(result.points - points["target_points"], axis=1)
    assert (error <= 0.1 * 480).mean() >= 0.7


def test_every_photo_has_its_author_and_terms_beside_it():
    table = (PHOTOS / "README.md").read_text(encoding="utf-8")
    rows = [line for line in table.splitlines() if "CC0" in line or "public domain" in line]
    listed = {line.split("`")[1] for line in rows}
    assert listed == {path.name for path in PHOTOS.glob("*.jpg")}


@pytest.mark.parametrize("name", ["cat", "grace-hopper"])
def test_the_points_of_a_photo_lie_inside_it_and_name_the_subjects_own_sides(name):
    marked = read_points(PHOTOS / f"{name}.json")
    with Image.open(PHOTOS / f"{name}.jpg") as photo:
        check_points(marked.points, photo.size)
    across = dict(zip(marked.names, marked.points[:, 0], strict=True))
    for feature in ("eye", "ear"):  # both look at the camera
        assert across[f"left {feature}"] > across["nose"] > across[f"right {feature}"]


@pytest.mark.parametrize("pair", ON_TARGET, ids="-to-".join)
def test_the_shipped_model_finds_eyes_and_nose_on_the_other_photo(pair):
    source, target = pair
    marked = read_points(PHOTOS / f"{source}.json")
    result = Matcher.from_pretrained().match(PHOTOS / f"{source}.jpg", PHOTOS / f"{target}.jpg", marked.points)
    found = dict(zip(marked.names, result.points, strict=True))
    expected, tolerance = ON_TARGET[pair]
    distance = {name: np.linalg.norm(found[name] - np.array(place)) for name, place in expected.items()}
    assert max(distance.values()) <= tolerance, distance
