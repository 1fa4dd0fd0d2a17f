"""The libraries of the tools read our files, and we read theirs."""

import json
import os
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from mambamatcher.io.points import Annotations, Settings, read_annotations, read_objects, write_points
from tests.annotation_tools.conftest import ROOT, program
from tests.annotation_tools.format_steps import IMAGES, PLACES
from tests.helpers import noise_file
from tests.io.examples import SIZES, assert_same_points, one_each, several_each, video
from tests.io.test_recorded import assert_example

pytestmark = pytest.mark.tools

STEPS = ROOT / "tests" / "annotation_tools" / "format_steps.py"


def run(tool, step, folder):
    """Run a step in the environment of a tool, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [program(tool), STEPS, step, folder], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def plain(annotations: Annotations) -> Annotations:
    """Change names that a spreadsheet would take for formulas, which are written with an apostrophe."""
    images = {
        image: [replace(each, names=tuple(name.replace("=", "is ") for name in each.names)) for each in objects]
        for image, objects in annotations.images.items()
    }
    return replace(annotations, images=images)


@pytest.mark.parametrize("make", [one_each, several_each, video])
def test_pandas_reads_our_deeplabcut_files_with_its_own_header(make, tmp_path):
    given = plain(make())
    write_points(tmp_path / "a.csv", given, format="deeplabcut", settings=Settings(scorer="me"))
    (tmp_path / "h5").mkdir()
    write_points(tmp_path / "h5" / "given.json", given)
    run("pandas", "ours_writes_h5", tmp_path / "h5")
    (tmp_path / "h5" / "CollectedData_me.h5").rename(tmp_path / "a.h5")
    (tmp_path / "read").mkdir()
    for name in ("a.csv", "a.h5"):
        (tmp_path / name).rename(tmp_path / "read" / name)
    found = run("pandas", "pandas_reads", tmp_path / "read")
    several = make is several_each
    for table in found.values():
        assert table["levels"] == ["scorer", *(["individuals"] if several else []), "bodyparts", "coords"]
        columns = [tuple(column) for column in table["columns"]]
        rows = {
            index.rpartition("/")[2]: dict(zip(columns, row, strict=True))
            for index, row in zip(table["index"], table["values"], strict=True)
        }
        assert len(rows) == len(given.images)
        for image, objects in given.images.items():
            row = rows[image.rpartition("#")[2] if make is video else image.rpartition("/")[2]]
            for number, each in enumerate(objects, start=1):
                who = ("me", f"individual{number}") if several else ("me",)
                for point, (x, y), seen, sure in zip(
                    each.names, each.points, each.visibility, each.confidence, strict=True
                ):
                    place = [row[(*who, point, coordinate)] for coordinate in "xy"]
                    assert place == ([None, None] if seen == 0 else pytest.approx([x, y], abs=0.01))
                    if make is video and seen:
                        assert row[(*who, point, "likelihood")] == pytest.approx(sure, abs=1e-4)


def test_we_read_what_pandas_writes_for_deeplabcut(tmp_path):
    run("pandas", "pandas_writes", tmp_path)
    for path in sorted(tmp_path.glob("*.csv")):
        assert_example(path)
    found = run("pandas", "ours_reads", tmp_path)
    for name, images in (("CollectedData_me.h5", IMAGES), ("clipDLC_resnet50.h5", ["clip#0", "clip#1"])):
        assert list(found[name]) == images
        for (each,), places in zip(found[name].values(), PLACES, strict=True):
            assert each["visibility"] == [0 if places[0] is None else 2, 2]
            assert each["points"][1] == places[2:]
            assert each["confidence"] is None or each["confidence"][1] in (0.8, 0.7)


def test_hdf5_runs_no_code(tmp_path):
    # that pandas alone runs it shows that the file is one that could
    assert run("pandas", "h5_with_code", tmp_path) == {"ours ran code": False, "pandas alone ran code": True}


@pytest.mark.parametrize("make", [one_each, several_each])
def test_sleap_io_reads_our_labels(make, tmp_path):
    given = make()
    write_points(tmp_path / "given.json", given)
    found = run("sleap", "sleap_reads", tmp_path)
    categories = given.categories
    nodes, edges = found["skeletons"]["cat"]
    assert nodes == categories["cat"]
    assert [(nodes[start], nodes[end]) for start, end in edges] == list(given.skeletons["cat"])
    frames = {frame["image"]: frame["instances"] for frame in found["frames"]}
    assert frames.keys() == given.images.keys()
    for image, objects in given.images.items():
        for each, instance in zip(objects, frames[image], strict=True):
            assert (instance["kind"], instance["skeleton"]) == ("PredictedInstance", each.category)
            for name, place, seen, sure in zip(each.names, each.points, each.visibility, each.confidence, strict=True):
                row = categories[each.category].index(name)
                expected = [None, None] if seen == 0 else pytest.approx(place.tolist(), abs=0.01)
                assert instance["points"][row] == expected
                assert instance["visible"][row] == (seen == 2)
                assert seen == 0 or instance["scores"][row] == pytest.approx(sure, abs=1e-3)
    again = run("sleap", "ours_reads", tmp_path)["ours.slp"]
    assert [each["visibility"] for each in again[next(iter(again))]] == [
        each.visibility.tolist() for each in given.images[next(iter(again))]
    ]


def test_we_read_what_sleap_io_writes(tmp_path):
    run("sleap", "sleap_writes", tmp_path)
    assert_example(tmp_path / "sleap-coco.json")
    found = run("sleap", "ours_reads", tmp_path)["theirs.slp"]
    assert list(found) == IMAGES
    assert [each["names"] for (each,) in found.values()] == [["nose", "tail"]] * 2
    assert [each["visibility"] for (each,) in found.values()] == [[2, 2], [0, 2]]
    assert found[IMAGES[1]][0]["points"][1] == PLACES[1][2:]


def test_pycocotools_reads_and_evaluates_our_keypoints(tmp_path):
    given = several_each()
    write_points(tmp_path / "points.coco.json", given)
    found = run("pycocotools", "pycocotools_reads", tmp_path)
    assert found["images"] == list(given.images)
    cat, dog = found["categories"]
    assert (cat["name"], dog["name"]) == ("cat", "dog")
    assert [(cat["keypoints"][a - 1], cat["keypoints"][b - 1]) for a, b in cat["skeleton"]] == list(
        given.skeletons["cat"]
    )
    for each, annotation in zip(given.objects(), found["annotations"], strict=True):
        triples = np.reshape(annotation["keypoints"], (-1, 3))
        np.testing.assert_array_equal(triples[:, 2], each.visibility)
        shown = each.visibility > 0
        np.testing.assert_allclose(triples[shown, :2], each.points[shown], atol=0.01)
        assert annotation["num_keypoints"] == shown.sum()
    assert found["average precision"] == pytest.approx(1.0)


def test_datumaro_reads_our_skeletons_and_keypoints(tmp_path):
    given = plain(one_each())
    for folder, name in (("cvat", "annotations.xml"), ("coco/annotations", "person_keypoints_train.json")):
        (tmp_path / folder).mkdir(parents=True)
        write_points(tmp_path / folder / name, given, format=folder.partition("/")[0])
        for image in given.images:  # its readers look for them
            path = tmp_path / folder.partition("/")[0] / "images" / image
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(noise_file())
    found = run("datumaro", "datumaro_reads", tmp_path)
    assert len(found["cvat"]) == len(found["coco"]) == len(given.images)
    for image, (each,) in given.images.items():
        points = {point["label"]: point for point in found["cvat"][image.removesuffix(".jpg")]}
        (keypoints,) = found["coco"][image.removesuffix(".jpg")]
        # Datumaro's reader of CVAT takes the points of a skeleton one by one, and does not know `outside` of images
        assert points.keys() == set(each.names)
        assert keypoints["visibility"] == each.visibility.tolist()
        for row, name in enumerate(each.names):
            if each.visibility[row] == 0:
                assert points[name]["points"] != [0, 0]
                continue
            np.testing.assert_allclose(points[name]["points"], each.points[row], atol=0.01)
            assert points[name]["attributes"]["occluded"] == (each.visibility[row] == 1)
            assert float(points[name]["attributes"]["confidence"]) == pytest.approx(each.confidence[row], abs=1e-4)
            np.testing.assert_allclose(keypoints["points"][2 * row : 2 * row + 2], each.points[row], atol=0.01)


def test_we_read_what_datumaro_writes(tmp_path):
    run("datumaro", "datumaro_writes", tmp_path)
    assert_example(next((tmp_path / "cvat").glob("*.xml")), "datumaro-cvat.xml")
    assert_example(next((tmp_path / "coco" / "annotations").glob("*.json")), "datumaro-coco.json")


def test_the_converter_of_label_studio_reads_our_tasks(tmp_path):
    given = one_each()
    write_points(tmp_path / "tasks.json", given, format="label-studio")
    write_points(tmp_path / "config.xml", given, format="label-studio-config")
    found = run("label-studio-sdk", "label_studio_reads", tmp_path)
    assert found["errors"] == [[]] * len(given.images)  # of its own check of predictions
    for name in ("json", "min"):
        (path,) = (tmp_path / name).iterdir()
        assert_same_points(read_objects(path), given, has_visibility=name == "json", has_confidence=name == "json")
    # its COCO has whole pixels, and knows no hidden points
    (merged,) = [each for each in found["coco"]["categories"] if "keypoints" in each]
    assert merged["keypoints"] == given.categories["cat"]
    for (each,), annotation in zip(given.images.values(), found["coco"]["annotations"], strict=True):
        triples = np.reshape(annotation["keypoints"], (-1, 3))
        np.testing.assert_array_equal(triples[:, 2] > 0, each.visibility > 0)
        shown = each.visibility > 0
        np.testing.assert_allclose(triples[shown, :2], each.points[shown], atol=0.51)
    assert read_annotations(tmp_path / "coco" / "result.json")


def test_we_read_what_the_converter_of_label_studio_writes(tmp_path):
    run("label-studio-sdk", "label_studio_writes", tmp_path)
    for name, example in (("json", "label-studio.json"), ("min", "label-studio-min.json")):
        (path,) = (tmp_path / name).iterdir()
        assert_example(path, example)


def test_x_anylabeling_opens_our_files(tmp_path):
    given = several_each()
    write_points(tmp_path, given, format="x-anylabeling")
    for image in given.images:
        (tmp_path / image).write_bytes(noise_file(*SIZES[0]))
    found = run("x-anylabeling", "x_anylabeling_reads", tmp_path)
    assert sorted(found) == ["a.json", "b.json"]
    shapes = found["a.json"]
    assert [each["label"] for each in shapes if each["shape_type"] == "rectangle"] == ["cat", "dog", "dog"]
    for number, each in enumerate(given.images["photos/a.jpg"], start=1):
        points = {
            shape["label"]: shape for shape in shapes if shape["group_id"] == number and shape["shape_type"] == "point"
        }
        kept = {name: row for row, name in enumerate(each.names) if each.visibility[row]}
        assert points.keys() == kept.keys()
        for name, row in kept.items():
            np.testing.assert_allclose(points[name]["points"], [each.points[row]], atol=0.01)
            assert points[name]["difficult"] == (each.visibility[row] == 1)
            assert points[name]["score"] == pytest.approx(each.confidence[row], abs=1e-4)


def test_we_read_what_x_anylabeling_writes(tmp_path):
    run("x-anylabeling", "x_anylabeling_writes", tmp_path)
    assert_example(tmp_path / "x-anylabeling.json")
