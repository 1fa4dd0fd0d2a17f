"""Every format of points, written and read; what each tool's own files look like is in test_recorded.py."""

import json
import os
import re
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np
import pytest

from mambamatcher.errors import ConfigError, InputError, MissingExtraError
from mambamatcher.io.points import (
    FORMATS,
    Annotations,
    ImageNames,
    Settings,
    deeplabcut_h5_format,
    find_in_folder,
    make_points,
    one_per_image,
    read_annotations,
    read_objects,
    read_points,
    with_category,
    with_skeleton,
    write_points,
)
from mambamatcher.io.points.label_studio_format import clean_image
from tests.helpers import noise_file
from tests.io.examples import assert_same_points, file_of, one_each, several_each, video

ROOT = Path(__file__).parents[2]
READ = [name for name, each in FORMATS.items() if each.is_read]
INSTALLED = [name for name in READ if all(find_spec(module) for module in FORMATS[name].needs)]
WITHOUT_VISIBILITY = ("deeplabcut", "deeplabcut-h5")
WITHOUT_CONFIDENCE = ("deeplabcut", "deeplabcut-h5")  # but for videos
WITHOUT_CATEGORY = ("deeplabcut", "deeplabcut-h5")
WITHOUT_SKELETON = ("csv", "deeplabcut", "deeplabcut-h5", "label-studio", "x-anylabeling")


@pytest.mark.parametrize("name", INSTALLED)
@pytest.mark.parametrize("make", [one_each, several_each])
def test_every_format_returns_places_names_visibility_confidences_and_images(name, make, tmp_path):
    path, given = tmp_path / file_of(name), make()
    write_points(path, given, format=name)
    found = read_objects(path)
    assert_same_points(found, given, name not in WITHOUT_VISIBILITY, name not in WITHOUT_CONFIDENCE)
    if name not in WITHOUT_CATEGORY and make is several_each:
        assert [each.category for each in found.images["photos/a.jpg"]] == ["cat", "dog", "dog"]
    if name not in WITHOUT_SKELETON:
        assert found.skeletons == given.skeletons
    assert found.has_visibility == (name not in WITHOUT_VISIBILITY)


@pytest.mark.parametrize("name", INSTALLED)
def test_every_format_holds_frames_of_a_video(name, tmp_path):
    path = tmp_path / file_of(name).replace("CollectedData_", "clip.mp4DLC_")
    write_points(path, video(), format=name)
    assert_same_points(read_objects(path), video(), name not in WITHOUT_VISIBILITY)


@pytest.mark.parametrize("name", [name for name in READ if name not in INSTALLED])
def test_a_format_whose_package_is_missing_says_how_to_get_it_and_writes_nothing(name, tmp_path):
    with pytest.raises(MissingExtraError, match=r"pip install 'mambamatcher\[tools\]'"):
        write_points(tmp_path / file_of(name), one_each(), format=name)
    assert not list(tmp_path.iterdir())
    path = tmp_path / file_of(name)
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(MissingExtraError, match="is not installed"):
        read_objects(path)


@pytest.mark.parametrize("name", [name for name in INSTALLED if not FORMATS[name].is_folder and name != "sleap"])
def test_the_content_tells_the_format_whatever_the_file_is_called(name, tmp_path):
    path = tmp_path / "export.txt"
    write_points(path, one_each(), format=name)
    assert_same_points(read_objects(path), one_each(), name not in WITHOUT_VISIBILITY, name not in WITHOUT_CONFIDENCE)


def test_an_unknown_format_is_answered_with_those_there_are(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'deeplabcut'"):
        write_points(tmp_path / "a", one_each(), format="deeplabcat")


def test_the_page_states_the_longest_time_and_the_most_memory_that_were_measured():
    found = json.loads((ROOT / "benchmarks" / "results" / "formats.json").read_text())
    assert (found["images"], found["points per image"]) == (100_000, 20)
    runs = [found[name][action] for name in READ for action in ("write", "read")]
    seconds, memory = (max(run[key] for run in runs) for key in ("seconds", "peak memory, MB"))
    page = (ROOT / "docs" / "tools" / "index.md").read_text()
    assert f"more than {seconds:.0f} s or more than {memory} MB" in page


# Label Studio


def test_label_studio_gets_percent_scores_and_the_names_of_its_tags(tmp_path):
    given = {
        "a.jpg": make_points(
            [(32, 12), (64, 24), (1, 1)], ["nose", "ear", "gone"], [2, 1, 0], [0.5, 0.25, 0.1], (64, 48)
        )
    }
    settings = Settings(from_name="kp", to_name="img", image_prefix="/data/local-files/?d=my photos/")
    write_points(tmp_path / "t.json", given, format="label-studio", settings=settings)
    (task,) = json.loads((tmp_path / "t.json").read_text())
    assert task["data"] == {"image": "/data/local-files/?d=my photos/a.jpg"}
    (prediction,) = task["predictions"]
    assert prediction["score"] == 0.375
    nose, ear = prediction["result"]
    assert nose["value"] == {"x": 50, "y": 25, "width": 0.5, "keypointlabels": ["nose"]}
    assert (nose["from_name"], nose["to_name"], nose["type"], nose["score"]) == ("kp", "img", "keypointlabels", 0.5)
    assert (nose["original_width"], nose["original_height"]) == (64, 48)
    assert (ear["value"]["x"], ear["value"]["y"]) == (100, 50)
    assert list(read_annotations(tmp_path / "t.json")) == ["my photos/a.jpg"]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("/data/local-files/?d=photos/a%20b.jpg", "photos/a b.jpg"),
        ("/data/upload/12/0a1b2c3d-cat.jpg", "cat.jpg"),
        ("/data/upload/12/cat.jpg", "cat.jpg"),
        ("http://localhost:8081/photos/cat%231.jpg?signature=x", "photos/cat#1.jpg"),
        ("s3://bucket/photos/cat.jpg", "photos/cat.jpg"),
        ("photos/100%.jpg", "photos/100%.jpg"),
        ("photos/who?.jpg", "photos/who?.jpg"),
        ("/photos/cat.jpg?signature=x", "photos/cat.jpg"),
    ],
)
def test_images_lose_what_label_studio_adds_to_their_names(url, name):
    assert clean_image(url) == name


def test_of_a_label_studio_task_the_last_annotation_counts_that_was_not_skipped(tmp_path):
    def regions(x):
        return [{"value": {"x": x, "y": 10, "keypointlabels": ["nose"]}, "original_width": 100, "original_height": 50}]

    task = {
        "data": {"text": "none", "photo": "a.png"},
        "annotations": [{"result": regions(1)}, {"result": regions(2)}, {"result": regions(3), "was_cancelled": True}],
        "predictions": [{"result": regions(4)}],
    }
    for content in ([task], task):
        (tmp_path / "t.json").write_text(json.dumps(content))
        np.testing.assert_allclose(read_points(tmp_path / "t.json", "a.png").points, [[2, 5]])


# CVAT


def test_an_absent_point_of_cvat_is_outside_and_lies_among_the_others(tmp_path):
    given = {"a.jpg": make_points([(10, 10), (30, 50), (0, 0)], ["nose", "ear", "tail"], [2, 1, 0], size=(64, 64))}
    write_points(tmp_path / "a.xml", given, format="cvat")
    root = ElementTree.parse(tmp_path / "a.xml").getroot()
    points = {each.get("label"): each for each in root.iter("points")}
    states = {name: (each.get("outside"), each.get("occluded")) for name, each in points.items()}
    assert states == {"nose": ("0", "0"), "ear": ("0", "1"), "tail": ("1", "0")}
    assert points["tail"].get("points") == "20.0,30.0"  # the middle of the other two
    assert (root.find("image").get("width"), root.find("image").get("name")) == ("64", "a.jpg")
    assert [label.findtext("type") for label in root.iter("label")] == ["skeleton", "points", "points", "points"]


def test_cvat_for_video_and_points_outside_skeletons_are_read(tmp_path):
    (tmp_path / "a.xml").write_text(
        """<annotations><meta><task><source>clip.mp4</source></task></meta>
        <track id="0" label="cat"><skeleton frame="3" keyframe="1">
        <points label="nose" outside="0" occluded="1" points="1.5,2"/><points label="tail" outside="1" points="0,0"/>
        </skeleton></track></annotations>"""
    )
    ((image, (found,)),) = read_objects(tmp_path / "a.xml").images.items()
    assert (image, found.category, found.names) == ("clip.mp4#3", "cat", ("nose", "tail"))
    np.testing.assert_array_equal(found.visibility, [1, 0])
    (tmp_path / "b.xml").write_text(
        """<annotations><image id="0" name="a.jpg"><points label="nose" points="1,2" group_id="1"/>
        <points label="nose" points="3,4" group_id="2"/><points label="ear" points="5,6" group_id="2"/>
        <box label="x" xtl="0" ytl="0" xbr="1" ybr="1"/></image></annotations>"""
    )
    assert [each.names for each in read_objects(tmp_path / "b.xml").images["a.jpg"]] == [("nose",), ("nose", "ear")]


BOMB = '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><annotations>&d;</annotations>'
FILE = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><annotations><image name="&b;"/></annotations>'


@pytest.mark.parametrize("text", [BOMB, FILE, '<!DOCTYPE annotations SYSTEM "http://example.com/a.dtd"><annotations/>'])
def test_xml_that_defines_entities_is_refused(text, tmp_path):
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(InputError, match=r"a\.xml: line 1: it defines entities or a document type"):
        read_objects(tmp_path / "a.xml")


@pytest.mark.parametrize("drawing", ["<line " * 20_000, f"<line {'data-' * 20_000}>", f"<circle {'data-a' * 20_000}>"])
def test_a_malformed_drawing_of_a_skeleton_takes_no_longer_than_another(drawing, tmp_path):
    label = f"<meta><label><name>a</name><svg>{escape(drawing)}</svg></label></meta>"
    points = '<image name="a.jpg"><points label="b" points="1,2"/></image>'
    (tmp_path / "a.xml").write_text(f"<annotations>{label}{points}</annotations>")
    start = process_time()
    assert not read_objects(tmp_path / "a.xml").skeletons
    assert process_time() - start < 3  # seconds; it was 12 or more


def test_a_name_that_xml_cannot_hold_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match="which XML cannot hold"):
        write_points(tmp_path / "a.xml", {"a.jpg": make_points([(1, 2)], ["a\x01b"])}, format="cvat")
    assert not list(tmp_path.iterdir())


def test_labels_for_cvat_and_label_studio_name_every_point(tmp_path):
    write_points(tmp_path / "labels.json", several_each(), format="cvat-labels")
    cat, dog = json.loads((tmp_path / "labels.json").read_text())
    assert (cat["name"], cat["type"], dog["name"]) == ("cat", "skeleton", "dog")
    assert [each["name"] for each in dog["sublabels"]] == list(several_each().categories["dog"])
    assert len(re.findall("<circle", cat["svg"])) == 6
    assert len(re.findall("<line", cat["svg"])) == 2
    write_points(tmp_path / "config.xml", several_each(), format="label-studio-config")
    view = ElementTree.parse(tmp_path / "config.xml").getroot()
    assert [each.get("value") for each in view.find("KeyPointLabels")] == several_each().categories["cat"]
    assert [each.get("value") for each in view.find("RectangleLabels")] == ["cat", "dog"]


# DeepLabCut


def test_deeplabcut_gets_three_rows_of_header_and_its_paths(tmp_path):
    given = {
        "0.jpg": make_points([(1.5, 2), (3, 4)], ["nose", "=tail"], [2, 0]),
        "mouse/1.jpg": make_points([(5, 6)], ["nose"]),
    }
    write_points(tmp_path / "a.csv", given, format="deeplabcut", settings=Settings(scorer="me"))
    assert (tmp_path / "a.csv").read_text().splitlines() == [
        "scorer,me,me,me,me",
        "bodyparts,nose,nose,'=tail,'=tail",
        "coords,x,y,x,y",
        "labeled-data/images/0.jpg,1.5,2.0,,",
        "labeled-data/mouse/1.jpg,5.0,6.0,,",
    ]


def test_images_that_deeplabcut_could_not_tell_apart_are_refused(tmp_path):
    same = {image: make_points([(1, 2)]) for image in ("a/x/0.jpg", "b/x/0.jpg")}
    with pytest.raises(InputError, match="two of these images are the same"):
        write_points(tmp_path / "a.csv", same, format="deeplabcut")


def crash() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSEGV)  # as the library of HDF5 does


def test_a_file_that_crashes_its_reader_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.h5").write_bytes(b"\x89HDF")
    monkeypatch.setattr(deeplabcut_h5_format, "serve_table", crash)
    with pytest.raises(InputError, match="it is damaged: its reader crashed"):
        deeplabcut_h5_format.read_h5(tmp_path / "a.h5")


@pytest.mark.parametrize("file", ["CollectedData_me.csv", "points.dlc.csv"])
def test_frames_of_a_file_that_names_no_video_are_those_of_the_only_one(file, tmp_path):
    write_points(tmp_path / file, video(), format="deeplabcut")
    known = ImageNames([*video().images, "other.png"])
    assert [known.find(image) for image in read_objects(tmp_path / file).images] == list(video().images)
    assert known.find("video#1") is None
    assert known.find("other#0") is None


# X-AnyLabeling


def test_x_anylabeling_gets_a_file_per_image_and_other_files_stay(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "mine.txt").write_text("mine")
    write_points(tmp_path, one_each(), format="x-anylabeling")
    names = sorted(path.name for path in (tmp_path / "photos").iterdir())
    assert names == ["0 é&'.json", "1 é&'.json", "mine.txt"]
    content = json.loads((tmp_path / "photos" / "0 é&'.json").read_text())
    assert (content["imagePath"], content["imageWidth"], content["imageHeight"]) == ("0 é&'.jpg", 640, 481)
    shapes = [(each["label"], each["shape_type"], each["difficult"]) for each in content["shapes"]]
    assert shapes[:3] == [("cat", "rectangle", False), ("nose", "point", False), ("left, eye", "point", True)]
    with pytest.raises(InputError, match=r"json exists already"):
        write_points(tmp_path, one_each(), format="x-anylabeling")
    write_points(tmp_path, one_each(), overwrite=True, format="x-anylabeling")


@pytest.mark.parametrize("image", ["../a.jpg", "/etc/a.jpg", "a/../../b.jpg"])
def test_x_anylabeling_never_writes_outside_its_folder(image, tmp_path):
    with pytest.raises(InputError, match="not a path within a folder"):
        write_points(tmp_path / "out", {image: make_points([(1, 2)])}, format="x-anylabeling")
    assert not list(tmp_path.iterdir())


# categories, skeletons and images


def test_of_several_categories_one_is_taken_and_a_wrong_name_is_refused(tmp_path):
    write_points(tmp_path / "a.coco.json", several_each())
    with pytest.raises(InputError, match=r"photos/a\.jpg has several annotated objects; name a category"):
        read_annotations(tmp_path / "a.coco.json")
    assert read_points(tmp_path / "a.coco.json", "a.jpg", "cat").category == "cat"
    with pytest.raises(InputError, match="several annotated objects; keep"):
        read_points(tmp_path / "a.coco.json", "a.jpg", "dog")
    with pytest.raises(InputError, match=r"unknown category 'dug'\. Did you mean 'dog'"):
        read_points(tmp_path / "a.coco.json", "a.jpg", "dug")


def test_objects_without_a_category_are_given_one():
    plain = Annotations(images={"a.jpg": [make_points([(1, 2)])]})
    assert one_per_image(with_category(plain, "cat"))["a.jpg"].category == "cat"


def test_a_skeleton_joins_points_that_there_are():
    plain = Annotations(images={"a.jpg": [make_points([(1, 2), (3, 4)], ["nose", "tail"])]})
    assert with_skeleton(plain, (("nose", "tail"),)).skeletons == {"object": (("nose", "tail"),)}
    with pytest.raises(InputError, match="Did you mean 'nose'"):
        with_skeleton(plain, (("noes", "tail"),))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("b/0.jpg", "b/0.jpg"),
        ("labeled-data/b/0.jpg", "b/0.jpg"),
        ("x\\a\\0.jpg", "a/0.jpg"),
        ("0.jpg", None),  # of two folders
        ("c/1.jpg", "1.jpg"),
        ("2.jpg", None),
        ("", None),
    ],
)
def test_an_image_is_known_by_the_end_of_its_path(name, found):
    assert ImageNames(["a/0.jpg", "b/0.jpg", "1.jpg"]).find(name) == found


def test_images_are_looked_up_in_a_folder_and_their_sizes_read(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.png").write_bytes(noise_file(60, 40))
    given = Annotations(images={"/data/x/deep/a.png": [make_points([(1, 2)])]})
    ((name, (found,)),) = find_in_folder(given, tmp_path).images.items()
    assert (name, found.size) == ("deep/a.png", (60, 40))
    for image, size, says in (
        ("b.png", None, r"b\.png is not in"),
        ("a.png", (30, 20), "another image"),
        (None, None, "do not say which image"),
    ):
        with pytest.raises(InputError, match=says):
            find_in_folder(Annotations(images={image: [make_points([(1, 2)], size=size)]}), tmp_path)


# damaged files


LABEL = {"value": {"x": 1, "y": 2, "keypointlabels": ["a"]}, "original_width": 10, "original_height": 10}
SHAPE = {"label": "a", "points": [[1, 2]], "shape_type": "point"}


def task(**changes):
    return json.dumps([{"data": {"image": "a.jpg"}, "predictions": [{"result": [{**LABEL, **changes}]}]}])


IMAGE = {"id": 1, "file_name": "a.jpg"}
CAT = {"id": 7, "name": "cat", "keypoints": ["a", "b"]}


def coco(**changes):
    """Return a COCO file with changes of its fields, or of those of its annotation."""
    annotation = {"image_id": 1, "category_id": 7, "keypoints": [1, 2, 2, 3, 4, 1]}
    of_file = {key: changes.pop(key) for key in ("images", "annotations", "categories") if key in changes}
    return json.dumps({"images": [IMAGE], "annotations": [annotation | changes], "categories": [CAT], **of_file})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("t.json", task(value={"x": "left", "y": 2, "keypointlabels": ["a"]}), "task 1.*could not convert"),
        ("t.json", task(value={"y": 2, "keypointlabels": ["a"]}), "task 1: the field 'x' is missing"),
        ("t.json", task(value={"x": 1, "y": float("nan"), "keypointlabels": ["a"]}), "task 1: places .* finite"),
        ("t.json", task(original_width=0), "original_width and original_height of 'a' are 0 and 10"),
        ("t.json", '[{"data": {"id": 3}}]', "task 1: data has no image"),
        ("t.json", '[{"data": {"image": "a.jpg"}}', "Label Studio"),
        ("t.json", '[{"data": {"image": "a.jpg"}}]', "holds no points"),
        (
            "t.json",
            '[{"data": {"image": "a.jpg"}}, {"data": {"image": "a.jpg"}}]',
            "task 2: the image a.jpg has a task",
        ),
        ("t.json", '[{"data": {"image": "a", "image": "b"}}]', "the key 'image' appears more than once"),
        ("a.xml", "<annotations><image", "a.xml: it is damaged, or not XML: unclosed token"),
        ("a.xml", "<html></html>", "first element is <html>"),
        ("a.xml", '<annotations><image name="a"><points label="b" points="1"/></image></annotations>', "line 1"),
        ("a.xml", '<annotations>\n<image name="a"><points points="1,2"/></image></annotations>', "line 2.*'label'"),
        (
            "a.xml",
            '<annotations><points label="a" points="1,2"/><image name="b"/></annotations>',
            "line 1: points belong",
        ),
        ("d.csv", "scorer,me,me\nbodyparts,a,a\ncoords,x,y\nb.jpg,1\n", "row 1 after the header: it has 2 cells"),
        ("d.csv", "scorer,me,me\nbodyparts,a,a\ncoords,x,y\nb.jpg,1,up\n", "row 1 after the header.*'up'"),
        ("d.csv", "scorer,me,me\nbodyparts,a,a\ncoords,x,x\nb.jpg,1,2\n", "two columns are x of 'a'"),
        ("d.csv", "scorer,me,me\nparts,a,a\ncoords,x,y\n", "its first rows must be"),
        ("d.csv", "scorer,me\nbodyparts,a\ncoords,x\nb.jpg,1\n", "no column y"),
        ("d.csv", "scorer,me,me\nbodyparts,a,a\ncoords,x,y\nb.jpg,1,2\nb.jpg,1,2\n", "two rows are of 'b.jpg'"),
        ("x.json", json.dumps({"shapes": [SHAPE]}), "imagePath"),
        (
            "x.json",
            json.dumps({"shapes": [{**SHAPE, "points": [[1, 2], [3, 4]]}], "imagePath": "a"}),
            r"shapes\[0\]: malformed",
        ),
        ("x.json", json.dumps({"shapes": [SHAPE, SHAPE], "imagePath": "a"}), "named 'a'"),
        (
            "c.json",
            json.dumps({"images": [{"id": 1}], "annotations": []}),
            r"c\.json: images\[0\]: the field 'file_name' is missing",
        ),
        (
            "c.json",
            json.dumps({"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 2}]}),
            r"annotations\[0\]: image_id 2 is of no image",
        ),
        ("c.json", coco(images=[IMAGE, {**IMAGE, "file_name": "b"}]), r"images\[1\]: another image has the id 1 too"),
        ("c.json", coco(images={"a": IMAGE}), "images must be a list"),
        ("c.json", coco(images=[{**IMAGE, "file_name": None}]), r"images\[0\]: file_name must be text, got None"),
        ("c.json", coco(categories=[CAT, {**CAT, "name": "dog"}]), r"categories\[1\]: another category has the id 7"),
        ("c.json", coco(categories=["cat"]), r"categories\[0\]: a category must be an object"),
        ("c.json", coco(categories=[{**CAT, "keypoints": "ab"}]), r"categories\[0\]: keypoints must be a list"),
        ("c.json", coco(categories=[{**CAT, "keypoints": ["a", None]}]), r"categories\[0\]: a name in keypoints"),
        ("c.json", coco(categories=[{**CAT, "id": 1}]), r"annotations\[0\]: category_id 7 is of no category"),
        ("c.json", coco(annotations=None), "annotations must be a list, got None"),
        ("c.json", coco(keypoints=[1, 2, 2, 3, 4]), r"annotations\[0\]: keypoints must hold x, y and visibility"),
        ("c.json", coco(keypoints=[1, 2, None, 3, 4, 2]), r"annotations\[0\]: visibility is .* got \[nan, 2.0\]"),
        ("c.json", coco(keypoints=[1, 2, 1.5, 3, 4, 2]), r"annotations\[0\]: visibility is .* got \[1.5, 2.0\]"),
        ("c.json", coco(bbox=[0, 0, float("inf"), 5]), r"annotations\[0\]: bbox: expected a finite number, got inf"),
        ("c.json", coco(keypoint_scores=[0.5, 1e308]), r"annotations\[0\]: confidences must be finite .* 1e\+308"),
        (
            "d.csv",
            "scorer,me,me,me\nbodyparts,a,a,a\ncoords,x,y,likelihood\n0,1,2,1e400\n",
            "d#0: confidences must be finite numbers, such as 0.9, got .inf",
        ),
        ("p.json", '{"images": [[1, 2]]}', "images must be an object"),
        ("p.json", '{"images": {"a.jpg": null}}', r"images\['a.jpg'\]: an entry must be an object, got None"),
        ("p.json", '{"images": {"a.jpg": {"points": [[1, 2]], "category": 0}}}', "'a.jpg'.*category must be text"),
        ("p.json", '{"images": {"a.jpg": {"points": [[1, 2]], "names": "b"}}}', "'a.jpg'.*names must be a list"),
        ("p.json", '{"images": {"a.jpg": {"points": [[1, 2]], "size": ["b", 1]}}}', r"images\['a.jpg'\]: .*'b'"),
        ("p.csv", "image,name,x,y\na.jpg,b,1,2\na.jpg,c,1,up\n", r"line 3: .*'up'"),
        ("p.csv", "image,name,x,y\na.jpg,b,1\n", "line 2: it has 3 cells, and the header 4"),
        ("p.csv", "image,name,x,y\na.jpg,b,1,2\nb.jpg,c,1,nan\na.jpg,d,1,2\n", r"p\.csv: b\.jpg: places .* finite"),
        (
            "x.json",
            json.dumps({"shapes": [SHAPE, {**SHAPE, "points": [[1, "up"]]}], "imagePath": "a"}),
            r"shapes\[1\]: .*'up'",
        ),
        ("c.json", coco(bbox=[0, 0, 5]), r"annotations\[0\]: bbox: it must hold 4 numbers"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence_with_its_name_and_the_field(name, text, says, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        read_objects(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_points_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"version": 1}')
    with pytest.raises(InputError, match="holds no points"):
        read_objects(tmp_path)


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_an_array_is_parsed_alike_however_it_is_cut(chunk, tmp_path):
    from mambamatcher.io.json_array import parse_json_array

    content = [{"a": 'x"]}', "b": [1, {"c": -2.5}]}, {}, {"é": None}]
    (tmp_path / "a.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    assert list(parse_json_array(tmp_path / "a.json", chunk)) == content
