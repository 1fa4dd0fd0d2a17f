"""Points from the files of one tool to those of another, and formats of a run of `propagate`."""

import json
import shutil
from functools import partial

import numpy as np
import pytest

from mambamatcher.errors import InputError
from mambamatcher.io.points import FORMATS, Settings, make_points, read_annotations, read_objects, write_points
from mambamatcher.jobs.source import read_source
from mambamatcher.tools.convert import Choice, convert, read_skeleton
from mambamatcher.tools.outputs import Outputs
from mambamatcher.tools.propagate import propagate, read_references
from tests.helpers import noise_file, run_cli
from tests.io.examples import assert_same_points, one_each, several_each
from tests.tools.conftest import picture

TEXT_FORMATS = [name for name, each in FORMATS.items() if each.is_read and not each.needs]


@pytest.fixture
def run(capsys, monkeypatch):
    return partial(run_cli, monkeypatch, capsys)


@pytest.mark.parametrize("source", TEXT_FORMATS)
@pytest.mark.parametrize("target", ["coco", "cvat"])
def test_points_go_from_every_format_to_another(source, target, tmp_path):
    write_points(tmp_path / "in", several_each(), format=source)
    convert(tmp_path / "in", tmp_path / "out", target)
    keeps = source != "deeplabcut"
    assert_same_points(read_objects(tmp_path / "out"), several_each(), keeps, keeps)


def test_one_category_and_another_skeleton_are_taken(tmp_path):
    write_points(tmp_path / "in.json", several_each())
    (tmp_path / "bones.json").write_text('[["nose", "Schwänzchen"]]')
    choice = Choice(category="dog", skeleton=tmp_path / "bones.json")
    convert(tmp_path / "in.json", tmp_path / "out.coco.json", "coco", choice)
    found = json.loads((tmp_path / "out.coco.json").read_text())
    assert [each["name"] for each in found["categories"]] == ["dog"]
    assert found["categories"][0]["skeleton"] == [[1, 3]]
    assert len(found["annotations"]) == 2


def test_a_skeleton_comes_from_pairs_of_names_or_from_points_of_a_tool(tmp_path):
    write_points(tmp_path / "a.coco.json", one_each())
    skeleton = one_each().skeletons["cat"]
    assert read_skeleton(None, tmp_path / "a.coco.json") == skeleton
    assert read_skeleton(tmp_path / "a.coco.json", tmp_path / "other.json") == skeleton
    (tmp_path / "points.json").write_text("[[1, 2]]")
    with pytest.raises(InputError, match=r"points\.json has 0 skeletons"):
        read_skeleton(tmp_path / "points.json", tmp_path / "a.coco.json")


def test_label_studio_needs_sizes_which_the_images_have(run, tmp_path):
    (tmp_path / "p.csv").write_text("image,name,x,y\na.png,nose,30,10\n")
    (tmp_path / "photos").mkdir()
    command = ("data", "convert", tmp_path / "p.csv", "--to", "label-studio", "--out", tmp_path / "t.json")
    code, _, err = run(*command)
    assert code == 2
    assert "p.csv: a.png: its size is not known" in err
    code, _, err = run(*command, "--root", tmp_path / "photos")
    assert code == 2
    assert "a.png is not in" in err
    assert not (tmp_path / "t.json").exists()
    (tmp_path / "photos" / "a.png").write_bytes(noise_file(60, 40))
    code, out, _ = run(*command, "--root", tmp_path / "photos", "--image-prefix", "/data/local-files/?d=photos/")
    assert code == 0
    assert "1 objects in 1 images" in out
    (task,) = json.loads((tmp_path / "t.json").read_text())
    assert task["data"]["image"] == "/data/local-files/?d=photos/a.png"
    assert task["predictions"][0]["result"][0]["value"]["x"] == 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "cvt"], "Did you mean 'cvat'"),
        (["--to", "cvat", "--category", "cow"], "unknown category 'cow'. Known: cat, dog."),
        (["--to", "cvat", "--skeleton", "bones.json"], "unknown point of the skeleton 'noes'. Did you mean 'nose'?"),
        (["--to", "sleap"], "pip install 'mambamatcher[tools]'"),
        (["--to", "cvat", "--root", "nowhere"], "there is no folder nowhere"),
        (["--to", "cvat", "--root", "n" * 300], "there is no folder nnn"),
        (["--to", "cvat", "--out", "n" * 300], "File name too long"),
        (["--to", "x-anylabeling", "--out", "n" * 300], "File name too long"),
    ],
)
def test_bad_conversions_are_one_sentence_and_write_nothing(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_points(tmp_path / "in.json", several_each())
    (tmp_path / "bones.json").write_text('[["noes", "Schwänzchen"]]')
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run("data", "convert", "in.json", "--out", "out", *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err + out
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_image_whose_name_no_file_can_have_is_not_in_a_folder(tmp_path):
    write_points(tmp_path / "in.json", {f"{'n' * 300}.jpg": make_points([(1, 2)])})
    with pytest.raises(InputError, match=r"in\.json: nnn.* is not in"):
        convert(tmp_path / "in.json", tmp_path / "out.csv", "csv", Choice(root=tmp_path))


# formats of a run


OUTPUTS = Outputs(formats=("cvat", "deeplabcut", "x-anylabeling", "label-studio"), category="cat")


@pytest.fixture
def work(tmp_path):
    """A reference with a skeleton in a file of CVAT, and two targets."""
    picture(seed=0).save(tmp_path / "cat.png")
    (tmp_path / "targets").mkdir()
    for number, name in enumerate(("a.png", "b.png"), start=1):
        picture(width=120, height=80, seed=number).save(tmp_path / "targets" / name)
    (tmp_path / "cat.json").write_text('{"points": [[20, 30], [60, 10]], "names": ["nose", "tail"]}')
    return tmp_path


@pytest.fixture
def once(matcher, work):
    """A function that runs with these options."""
    references = read_references(matcher, [work / "cat.png"], work / "cat.json")
    return lambda **options: propagate(matcher, references, read_source(work / "targets"), work / "out", **options)


def edited(path, name):
    """Move the nose in one image by 5 pixels, in a file of any format."""
    found = read_objects(path)
    (image,) = (image for image in found.images if "a." in image)
    (points,) = found.images[image]
    points.points[points.names.index("nose")] += 5
    if path.is_dir():
        write_points(path, found, overwrite=True, format=name)
    else:
        write_points(path, found, overwrite=True, format=name, settings=Settings())
    return points.points[points.names.index("nose")]


@pytest.mark.parametrize("name", OUTPUTS.formats)
def test_edits_of_every_format_are_taken_in(name, once, work):
    once(outputs=OUTPUTS)
    results = read_annotations(work / "out" / "points.csv")
    assert_same_points(
        read_objects(work / "out" / OUTPUTS.file(name)),
        read_objects(work / "out" / "points.csv"),
        name != "deeplabcut",
        name != "deeplabcut",
    )
    moved = edited(work / "out" / OUTPUTS.file(name), name)
    with pytest.raises(InputError, match=r"was changed since it was written .* take its changes in with --corrections"):
        once(outputs=OUTPUTS)
    summary = once(outputs=OUTPUTS, corrections=work / "out" / OUTPUTS.file(name))
    assert summary.kept == 1
    now = read_annotations(work / "out" / "points.csv")
    np.testing.assert_allclose(now["a.png"].points[0], moved, atol=0.01)
    assert (work / "out" / f"edited-1-{OUTPUTS.file(name)}").exists()
    corrections = json.loads((work / "out" / "corrections.json").read_text())
    assert list(corrections["images"]) == ["a.png"]
    # a point below the threshold that nobody moved has not been checked
    hidden = {
        point for point, seen in zip(results["a.png"].names, results["a.png"].visibility, strict=True) if seen == 1
    }
    assert not hidden - {"nose"} & corrections["images"]["a.png"]["points"].keys()


def test_files_of_the_user_are_not_replaced_by_a_format(once, work):
    once()
    (work / "out" / "x-anylabeling").mkdir()
    (work / "out" / "x-anylabeling" / "a.json").write_text("mine")
    with pytest.raises(InputError, match=r"a\.json was not written by this program"):
        once(outputs=OUTPUTS)
    assert (work / "out" / "x-anylabeling" / "a.json").read_text() == "mine"
    shutil.rmtree(work / "out")
    (work / "out").mkdir()
    (work / "out" / "points.cvat.xml").write_text("mine")
    with pytest.raises(InputError, match=r"points\.cvat\.xml exists already"):
        once(outputs=OUTPUTS)
    assert [path.name for path in (work / "out").iterdir()] == ["points.cvat.xml"]


def test_a_file_of_the_user_beside_a_finished_run_is_not_replaced(once, work):
    once()
    (work / "out" / "points.cvat.xml").write_text("mine")
    with pytest.raises(InputError, match=r"points\.cvat\.xml was not written by this program"):
        once(outputs=OUTPUTS)
    assert (work / "out" / "points.cvat.xml").read_text() == "mine"


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        (Outputs(skeleton=(("nose", "tial"),)), "unknown point of the skeleton 'tial'. Did you mean 'tail'"),
        (Outputs(formats=("cvat",), category="a\x01b"), "which XML cannot hold"),
        (Outputs(formats=("x-anylabeling",)), "'a.jpg' and another image would have the same file|'a.png' and another"),
        (Outputs(formats=("deeplabcut",)), "where two of these images"),
        (Outputs(formats=("deeplabcut",), settings=Settings(scorer="n" * 300)), "File name too long"),
    ],
)
def test_a_format_that_cannot_hold_the_results_is_refused_before_they_are_computed(outputs, says, once, work):
    if "x-anylabeling" in outputs.formats:
        picture(seed=3).save(work / "targets" / "a.jpg")
    if "deeplabcut" in outputs.formats:
        for folder in ("1", "2"):
            (work / "targets" / folder / "of").mkdir(parents=True)
            picture(seed=4).save(work / "targets" / folder / "of" / "c.png")
    with pytest.raises(InputError, match=says):
        once(outputs=outputs)
    assert not (work / "out").exists()


def test_a_scorer_is_part_of_a_file_name():
    assert Outputs(formats=("deeplabcut",), settings=Settings(scorer="me")).files == ["CollectedData_me.csv"]
    with pytest.raises(InputError, match="cannot be"):
        Outputs(settings=Settings(scorer="../me"))
