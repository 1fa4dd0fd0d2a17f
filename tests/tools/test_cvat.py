"""The function for CVAT, with a stand-in for cvat-sdk; tests/annotation_tools runs it with the real one."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.io.points import read_points
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.saved import SHIPPED
from mambamatcher.tools import cvat
from tests.test_sample import PHOTOS


@pytest.fixture
def sdk(monkeypatch):
    """Factories with the signatures of cvat-sdk, which return what they were given."""
    module = ModuleType("cvat_sdk.auto_annotation")
    module.DetectionFunctionSpec = lambda *, labels: labels
    module.label_spec = lambda name, id, **others: {"name": name, "id": id, **others}
    module.keypoint_spec = lambda name, id: {"name": name, "id": id}
    module.skeleton_label_spec = lambda name, id, sublabels: {"name": name, "id": id, "sublabels": sublabels}
    module.keypoint = lambda label_id, points, **others: {"label": label_id, "points": points, **others}
    module.skeleton = lambda label_id, elements: {"label": label_id, "elements": elements}
    module.shape = lambda label_id, **others: {"label": label_id, **others}
    monkeypatch.setitem(sys.modules, "cvat_sdk", ModuleType("cvat_sdk"))
    monkeypatch.setitem(sys.modules, "cvat_sdk.auto_annotation", module)


def make(**options):
    return cvat.create(str(PHOTOS / "cat.jpg"), str(PHOTOS / "cat.json"), model="lite", **options)


def detect(function, threshold=None):
    with Image.open(PHOTOS / "raccoon.jpg") as image:
        return function.detect(SimpleNamespace(conf_threshold=threshold), image)


def test_a_skeleton_has_every_point_and_those_not_matched_are_outside(sdk):
    names = read_points(PHOTOS / "cat.json").names
    function = make(label="animal")
    (label,) = function.spec
    assert (label["name"], [part["name"] for part in label["sublabels"]]) == ("animal", list(names))
    expected = Matcher.from_pretrained(SHIPPED["lite"]).match(
        PHOTOS / "cat.jpg", PHOTOS / "raccoon.jpg", read_points(PHOTOS / "cat.json").points
    )
    (found,) = detect(function)
    np.testing.assert_allclose([part["points"] for part in found["elements"]], expected.points)
    assert [part["outside"] for part in found["elements"]] == (~expected.matched).tolist()
    assert detect(function, threshold=1.0) == []


def test_separate_points_are_those_above_cvats_threshold(sdk):
    function = make(skeleton=False)
    assert [label["type"] for label in function.spec] == ["points"] * 6
    assert [each["label"] for each in detect(function, threshold=0.0)] == list(range(6))
    assert detect(function, threshold=1.0) == []


def test_missing_parameters_are_refused_in_one_sentence_on_the_command_line(monkeypatch):
    with pytest.raises(InputError, match="-p reference=str:IMAGE"):
        cvat.create()
    monkeypatch.setitem(sys.modules, "cvat_cli", ModuleType("cvat_cli"))
    with pytest.raises(SystemExit, match=r"mambamatcher: there is no image file at no\.jpg"):
        cvat.create("no.jpg", str(PHOTOS / "cat.json"))
