"""The client of X-AnyLabeling asks this server for points."""

import json
import os
import subprocess

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the web extra is not installed")

from mambamatcher.io.points import read_points
from mambamatcher.matching.matcher import Matcher
from tests.annotation_tools.conftest import PHOTOS, RECORDED, ROOT, program, recording, serving

pytestmark = pytest.mark.tools

TOKEN = "a token of this server"
STEPS = ROOT / "tests" / "annotation_tools" / "x_anylabeling_steps.py"


@pytest.fixture(scope="module")
def small_raccoon(tmp_path_factory):
    """A photo small enough to record."""
    path = tmp_path_factory.mktemp("images") / "raccoon.jpg"
    with Image.open(PHOTOS / "raccoon.jpg") as photo:
        photo.resize((80, 60)).save(path, quality=80)
    return path


@pytest.fixture(scope="module")
def answered(small_raccoon):
    """What the client makes of this server's answers."""
    python = program("x-anylabeling")
    with (
        serving("--x-anylabeling", "--token", TOKEN) as server,
        recording(server, "/v1/models", "/v1/predict") as recorder,
    ):
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
        command = [python, STEPS, recorder.url, TOKEN, small_raccoon]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        if os.environ.get("REFRESH_RECORDED"):
            kept = {
                f"{method} {path}": {
                    "headers": {name: headers[name] for name in ("Content-Type", "Token")},
                    "body": json.loads(body) if body else None,
                }
                for (method, path, headers), body in zip(recorder.asked, recorder.bodies, strict=True)
            }
            (RECORDED / "x-anylabeling.json").write_text(json.dumps(kept, indent=1) + "\n")
    return json.loads(done.stdout)


def test_the_client_lists_the_model_and_its_points(answered):
    assert not answered["messages"]
    assert list(answered["models"]) == ["mambamatcher"]
    assert answered["models"]["mambamatcher"]["classes"] == list(read_points(PHOTOS / "cat.json").names)


def test_the_client_gets_the_matched_points_as_shapes(answered, small_raccoon):
    reference = read_points(PHOTOS / "cat.json")
    expected = Matcher.from_pretrained().match(PHOTOS / "cat.jpg", small_raccoon, reference.points)
    matched = np.flatnonzero(expected.matched)
    assert [shape["label"] for shape in answered["shapes"]] == [reference.names[index] for index in matched]
    for shape, index in zip(answered["shapes"], matched, strict=True):
        assert shape["type"] == "point"
        np.testing.assert_allclose(shape["points"], expected.points[index][None], atol=0.01)
        assert shape["score"] == pytest.approx(expected.confidence[index], abs=1e-4)


def test_a_filter_of_classes_is_one_of_points(answered):
    assert answered["only"] == ["nose"]
