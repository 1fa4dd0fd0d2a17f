import json
from pathlib import Path

import numpy as np
from PIL import Image

import mambamatcher
from mambamatcher import Matcher
from mambamatcher.datasets.synthetic import sample_pair

SAMPLE = Path(mambamatcher.__file__).parent / "assets" / "sample"


def test_the_shipped_sample_is_what_the_package_renders():
    pair = sample_pair()
    for name, view in (("source", pair.source), ("target", pair.target)):
        shipped = np.asarray(Image.open(SAMPLE / f"{name}.png")).astype(int)
        assert np.abs(shipped - view.image).mean() < 0.5  # rounding may differ between machines


def test_nearest_neighbours_with_imagenet_weights_find_most_of_the_sample():
    points = json.loads((SAMPLE / "points.json").read_text())
    result = Matcher.from_pretrained().match(SAMPLE / "source.png", SAMPLE / "target.png", points["points"])
    error = np.linalg.norm(result.points - points["target_points"], axis=1)
    assert (error <= 0.1 * 480).mean() >= 0.5
