import json

import numpy as np
import pytest

from mambamatcher.errors import InputError
from mambamatcher.io.points import (
    PointSet,
    check_points,
    make_points,
    read_annotations,
    read_points,
    to_coco,
    write_points,
)

CAT = PointSet(
    points=np.array([[10.5, 20.0], [30.0, 4.25], [7.0, 8.0]]),
    names=("nose", "left, eye", "Schwänzchen"),
    visibility=np.array([2, 1, 2]),
    confidence=np.array([0.9, 0.25, 0.5]),
    size=(64, 48),
)
DOG = PointSet(points=np.array([[1.0, 2.0]]), names=("nose",), visibility=np.array([2]), size=(20, 10))


@pytest.mark.parametrize("name", ["p.json", "p.csv", "p.coco.json", "P.COCO.JSON"])
def test_every_format_keeps_places_names_and_visibility_of_several_pictures(name, tmp_path):
    write_points(tmp_path / name, {"a/cat.jpg": CAT, "dog.jpg": DOG})
    for image, written in (("a/cat.jpg", CAT), ("dog.jpg", DOG)):
        read = read_points(tmp_path / name, image)
        kept = [read.names.index(each) for each in written.names]
        np.testing.assert_allclose(read.points[kept], written.points)
        np.testing.assert_array_equal(read.visibility[kept], written.visibility)
        # a category of COCO has all names, so the dog has the cat's too, absent
        assert all(read.visibility[index] == 0 for index in range(len(read.names)) if index not in kept)


def test_coco_is_written_as_its_definition_says():
    absent = PointSet(points=CAT.points, names=CAT.names, visibility=np.array([2, 0, 2]), size=(64, 48))
    coco = to_coco({"cat.jpg": absent})
    assert coco["images"] == [{"id": 1, "file_name": "cat.jpg", "width": 64, "height": 48}]
    assert coco["categories"][0]["keypoints"] == list(CAT.names)
    (annotation,) = coco["annotations"]
    assert annotation["keypoints"] == [10.5, 20, 2, 0, 0, 0, 7, 8, 2]
    assert annotation["num_keypoints"] == 2
    assert annotation["bbox"] == [7, 8, 3.5, 12]
    assert annotation["area"] == 42
    assert "keypoint_scores" not in annotation
    assert to_coco({"cat.jpg": CAT})["annotations"][0]["keypoint_scores"] == [0.9, 0.25, 0.5]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.json", "[[1, 2], [3.5, 4]]"),
        ("points.json", '{"points": [[1, 2], [3.5, 4]], "source": "x"}'),
        ("bare.csv", "1,2\n3.5,4\n"),
        ("header.csv", "\ufeffY, X\r\n2,1\r\n4,3.5\r\n\r\n"),
    ],
)
def test_points_without_names_are_numbered_and_visible(name, text, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    read = read_points(tmp_path / name, "any.jpg")
    np.testing.assert_array_equal(read.points, [[1, 2], [3.5, 4]])
    assert read.names == ("1", "2")
    np.testing.assert_array_equal(read.visibility, [2, 2])


def test_only_what_can_be_seen_is_left_to_match():
    seen = CAT.visible()
    assert seen.names == ("nose", "Schwänzchen")
    np.testing.assert_array_equal(seen.points, CAT.points[[0, 2]])
    np.testing.assert_array_equal(seen.confidence, [0.9, 0.5])


def test_true_and_false_are_taken_for_visible_and_absent():
    np.testing.assert_array_equal(make_points([(1, 2), (3, 4)], visibility=[True, False]).visibility, [2, 0])


def test_a_picture_is_found_by_its_file_name_in_whatever_folder(tmp_path):
    write_points(tmp_path / "p.json", {"train/cat.jpg": CAT, "dog.jpg": DOG})
    assert read_points(tmp_path / "p.json", tmp_path / "elsewhere" / "cat.jpg").names == CAT.names
    with pytest.raises(InputError, match=r"no points for cow\.jpg; it has them for: dog\.jpg, train/cat\.jpg"):
        read_points(tmp_path / "p.json", "cow.jpg")
    with pytest.raises(InputError, match="2 images"):
        read_points(tmp_path / "p.json")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", "{", "must be JSON"),
        ("a.json", '{"points": [1, 2]}', "pairs"),
        ("a.json", '{"dots": []}', "must be JSON"),
        ("a.json", "[]", "empty"),
        ("a.json", '[["a", "b"]]', "numbers"),
        ("a.json", '{"points": [[1, 2]], "names": ["a", "b"]}', "1 points have 2 names"),
        ("a.json", '{"points": [[1, 2], [3, 4]], "names": ["a", "a"]}', "named 'a'"),
        ("a.json", '{"points": [[1, 2]], "visibility": [7]}', "visibility"),
        ("a.json", '"text"', "must be JSON"),
        ("a.csv", "", "no points"),
        ("a.csv", "1,2,3\n", "header with x and y"),
        ("a.csv", "x,y\n1\n", "line 2: it has 1 cells, and the header 2"),
        ("a.csv", "x,y\n1,north\n", "line 2: .*'north'"),
        ("a.json", json.dumps({"images": [], "annotations": [{"image_id": 3, "keypoints": []}]}), "COCO"),
    ],
)
def test_files_that_hold_no_points_are_refused_with_their_name(name, text, says, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        read_annotations(tmp_path / name)
    assert name in str(caught.value)


def test_several_objects_in_one_picture_are_refused(tmp_path):
    coco = to_coco({"cat.jpg": CAT})
    coco["annotations"] *= 2
    (tmp_path / "p.json").write_text(json.dumps(coco))
    with pytest.raises(InputError, match="several annotated objects"):
        read_annotations(tmp_path / "p.json")


def test_binary_and_missing_files_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match="not text"):
        read_annotations(tmp_path / "a.csv")
    with pytest.raises(InputError, match="cannot read points"):
        read_annotations(tmp_path / "gone.csv")


def test_nothing_is_overwritten_unasked_and_an_unknown_ending_is_refused(tmp_path):
    write_points(tmp_path / "p.csv", {"a.jpg": DOG})
    with pytest.raises(InputError, match="exists already"):
        write_points(tmp_path / "p.csv", {"a.jpg": CAT})
    write_points(tmp_path / "p.csv", {"a.jpg": CAT}, overwrite=True)
    with pytest.raises(InputError, match="cannot tell the format"):
        write_points(tmp_path / "p.txt", {"a.jpg": DOG})


def test_points_on_the_edge_are_inside():
    assert len(check_points([(0, 0), (20, 10)], (20, 10))) == 2
