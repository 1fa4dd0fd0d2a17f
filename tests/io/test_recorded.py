"""Files that other tools wrote, recorded by the steps in tests/annotation_tools/format_steps.py."""

from pathlib import Path

import numpy as np
import pytest

from mambamatcher.io.points import read_objects

RECORDED = Path(__file__).parent / "recorded"
MOUSE = ["labeled-data/mouse/img01.png", "labeled-data/mouse/img02.png"]
NOSE, TAIL, SECOND_TAIL, NONE = (10.5, 20.25), (30, 40), (50.125, 60), (0, 0)
TWO = [[(NOSE, 2), (TAIL, 2)], [(NONE, 0), (SECOND_TAIL, 2)]]
ONE = [[(NOSE, 2), (TAIL, 1)]]

# images, places and visibility of nose and tail of their first object
EXAMPLES = {
    "deeplabcut-labels.csv": (MOUSE, TWO),  # pandas, as DeepLabCut writes labels
    "deeplabcut-individuals.csv": (MOUSE, TWO),  # the same with several individuals
    "clipDLC_resnet50.csv": (["clip#0", "clip#1"], TWO),  # predictions of a video
    "sleap-coco.json": (MOUSE, TWO),
    "datumaro-coco.json": (["a.png"], ONE),
    "datumaro-cvat.xml": (["a.png"], ONE),
    "label-studio.json": (["a.png"], ONE),
    "label-studio-min.json": (["a.png"], [[(NOSE, 2), (TAIL, 2)]]),
    "x-anylabeling.json": (["a.png"], ONE),
}


def assert_example(path: Path, name: str | None = None) -> None:
    images, expected = EXAMPLES[name or path.name]
    found = read_objects(path)
    assert list(found.images) == images
    for (each, *_), points in zip(found.images.values(), expected, strict=True):
        assert each.names == ("nose", "tail")
        np.testing.assert_array_equal(each.visibility, [seen for _, seen in points])
        shown = each.visibility > 0
        np.testing.assert_allclose(each.points[shown], np.array([place for place, _ in points])[shown], atol=0.01)


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_files_of_other_tools_are_read(name):
    assert_example(RECORDED / name)


def test_likelihoods_and_individuals_of_deeplabcut_are_read():
    video = read_objects(RECORDED / "clipDLC_resnet50.csv")
    np.testing.assert_allclose([each.confidence for (each,) in video.images.values()], [[0.9, 0.8], [0.1, 0.7]])
    one, two = read_objects(RECORDED / "deeplabcut-individuals.csv").images[MOUSE[0]]
    np.testing.assert_allclose(two.points, one.points + 100)
