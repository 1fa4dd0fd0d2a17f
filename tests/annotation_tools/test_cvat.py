"""CVAT's own loader and driver run the auto-annotation function."""

import json
import os
import subprocess

import numpy as np
import pytest

from mambamatcher.io.points import read_points
from mambamatcher.matching.matcher import Matcher
from tests.annotation_tools.conftest import PHOTOS, ROOT, program

pytestmark = pytest.mark.tools

STEPS = ROOT / "tests" / "annotation_tools" / "cvat_steps.py"
REFERENCE = read_points(PHOTOS / "cat.json")
TARGETS = ["raccoon.jpg", "cat.jpg"]
CAT = {"name": "animal", "type": "skeleton", "sublabels": list(REFERENCE.names)}


def run(labels, threshold=None, **parameters):
    given = {
        "parameters": {"reference": str(PHOTOS / "cat.jpg"), "points": str(PHOTOS / "cat.json"), **parameters},
        "images": [str(PHOTOS / name) for name in TARGETS],
        "labels": labels,
        "threshold": threshold,
    }
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [program("cvat"), STEPS, json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout or done.returncode, done.stderr
    return json.loads(done.stdout) if done.stdout else done


@pytest.fixture(scope="module")
def expected():
    matcher = Matcher.from_pretrained()
    return [matcher.match(PHOTOS / "cat.jpg", PHOTOS / name, REFERENCE.points) for name in TARGETS]


def test_each_image_gets_a_skeleton_with_unmatched_points_outside(expected):
    answer = run([CAT], label="animal")
    assert [each["frame"] for each in answer["shapes"]] == [0, 1]
    for each, result in zip(answer["shapes"], expected, strict=True):
        assert (each["type"], answer["names"][str(each["label_id"])]) == ("skeleton", "animal")
        assert [answer["names"][str(part["label_id"])] for part in each["elements"]] == list(REFERENCE.names)
        np.testing.assert_allclose([part["points"] for part in each["elements"]], result.points, atol=0.01)
        assert [part["outside"] for part in each["elements"]] == [not matched for matched in result.matched]
    assert not all(expected[0].matched), "one point of the raccoon should be below the threshold"


def test_separate_points_and_a_threshold_of_cvat(expected):
    labels = [{"name": name, "type": "points"} for name in REFERENCE.names]
    answer = run(labels, threshold=0.7, skeleton=False)
    found = {(each["frame"], answer["names"][str(each["label_id"])]) for each in answer["shapes"]}
    assert found == {
        (frame, name)
        for frame, result in enumerate(expected)
        for name, confidence in zip(REFERENCE.names, result.confidence, strict=True)
        if confidence >= 0.7
    }


def test_cvat_refuses_a_task_without_the_skeleton():
    assert "'object' is not in dataset" in run([CAT])["refused"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"reference": "no.jpg"}, "mambamatcher: there is no image file at no.jpg"),
        ({"points": "no.json"}, "mambamatcher: cannot read points from no.json"),
        ({"model": "unheard-of"}, "mambamatcher: "),
    ],
)
def test_bad_parameters_end_in_one_sentence(wrong, words):
    done = run([CAT], **wrong)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
