import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from mambamatcher import Matcher
from mambamatcher.errors import InputError
from mambamatcher.io.points import make_points, read_annotations, write_points
from mambamatcher.jobs.source import read_source
from mambamatcher.matching.confidence import Calibration
from mambamatcher.tools import propagate as module
from mambamatcher.tools.corrections import Correction, Corrections, Status, annotated, write_corrections
from mambamatcher.tools.propagate import propagate
from mambamatcher.tools.references import Reference, propagate_to, read_references
from mambamatcher.tools.rounds import count_moved, describe_image, expected_gain, next_to_correct
from tests.tools.conftest import picture

EVIL = "=cmd <b>\"'\n.png"
NAMES = ["a.png", "b.png", EVIL, "more/c.png"]


@pytest.fixture
def work(tmp_path):
    picture(seed=1).save(tmp_path / "ref.png")
    write_points(
        tmp_path / "ref.json", {"ref.png": make_points([(10.25, 20), (45, 30), (70, 50)], ["nose", "tail", "paw"])}
    )
    (tmp_path / "targets" / "more").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        picture(120, 80, seed=10 + number).save(tmp_path / "targets" / name, "PNG")
    return tmp_path


def start(matcher, work):
    return read_references(matcher, [work / "ref.png"], work / "ref.json"), read_source(work / "targets")


def results(work, name="points.jsonl"):
    lines = [json.loads(line) for line in (work / "out" / name).read_text().splitlines()][1:]
    return {line["image"]: line for line in lines}


def correct(work, references, images):
    made_for = tuple(annotated(each.loaded.image, each.points) for each in references)
    write_corrections(work / "out" / "corrections.json", Corrections(made_for, images))


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}


ALL = {"nose": (11.125, 22.0), "tail": None, "paw": (100.0, 8.5)}


@pytest.mark.parametrize("name", ["points.coco.json", "points.csv", "review.html", "points.jsonl", "references.json"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_changed_since_it_was_written_is_never_replaced(matcher, work, name, overwrite):
    references, targets = start(matcher, work)
    propagate(matcher, references, targets, work / "out")
    path = work / "out" / name
    path.write_text(path.read_text() + " ")
    before = contents(work)
    with pytest.raises(InputError, match=rf"{name} was changed since it was written and is not replaced; ") as caught:
        propagate(matcher, references, targets, work / "out", overwrite=overwrite)
    assert ("--corrections" in str(caught.value)) == name.startswith(("points.coco", "points.csv"))
    assert contents(work) == before


def test_a_file_of_the_users_put_into_the_folder_of_a_stopped_run_is_kept(matcher, work, monkeypatch):
    references, targets = start(matcher, work)
    calls = []

    def stopping(*given):
        if calls:
            raise KeyboardInterrupt
        calls.append(given)
        return propagate_to(*given)

    monkeypatch.setattr(module, "propagate_to", stopping)
    with pytest.raises(KeyboardInterrupt):
        propagate(matcher, references, targets, work / "out")
    (work / "out" / "points.csv").write_text("mine")
    with pytest.raises(InputError, match=r"points\.csv was not written by this program and is not replaced"):
        propagate(matcher, references, targets, work / "out")


@pytest.mark.parametrize("name", ["points.coco.json", "points.csv"])
def test_a_changed_file_is_taken_in_and_its_images_are_kept_exactly(matcher, work, name, monkeypatch):
    references, targets = start(matcher, work)
    monkeypatch.setattr(matcher, "calibration", Calibration(threshold=0.0))  # all are visible
    propagate(matcher, references, targets, work / "out")
    path = work / "out" / name
    found = read_annotations(path)
    moved = found[EVIL].points.copy()
    moved[0] = 111.5, 2.25
    found[EVIL] = make_points(moved, found[EVIL].names, [2, 0, 2])
    write_points(path, found, overwrite=True)
    edited = path.read_bytes()
    summary = propagate(matcher, references, targets, work / "out", corrections=path)
    assert summary.kept == 1
    line = results(work)[EVIL]
    assert line["status"] == "corrected"
    first = line["points"][0]
    assert (first["x"], first["y"], first["matched"]) == (111.5, 2.25, True)
    assert line["points"][1]["absent"]
    assert (line["points"][2]["x"], line["points"][2]["y"]) == tuple(moved[2])
    for each in ("points.coco.json", "points.csv"):
        again = read_annotations(work / "out" / each)[EVIL]
        assert tuple(again.points[0]) == (111.5, 2.25)
        assert again.visibility.tolist() == [2, 0, 2]
    assert (work / "out" / f"edited-1-{name}").read_bytes() == edited
    # now it is in corrections.json, so the identical first command keeps it
    before = contents(work / "out")
    assert propagate(matcher, references, targets, work / "out") == summary
    assert contents(work / "out") == before


def test_what_annotation_tools_round_is_no_correction_and_a_doubtful_point_left_alone_is_not_confirmed(
    matcher, work, monkeypatch
):
    references, targets = start(matcher, work)
    monkeypatch.setattr(matcher, "calibration", Calibration(threshold=1.0))  # none is sure
    propagate(matcher, references, targets, work / "out")
    found = read_annotations(work / "out" / "points.coco.json")
    assert all((each.visibility == 1).all() and (each.points > 0).any() for each in found.values())
    rounded = {name: make_points(each.points.round(2), each.names, each.visibility) for name, each in found.items()}
    rounded["b.png"] = make_points([(5, 6), *rounded["b.png"].points[1:]], rounded["b.png"].names, [1, 1, 1])
    write_points(work / "edited.json", rounded)
    propagate(matcher, references, targets, work / "out", corrections=work / "edited.json")
    saved = json.loads((work / "out" / "corrections.json").read_text())["images"]
    assert saved == {"b.png": {"status": "corrected", "points": {"nose": [5.0, 6.0]}}}
    assert [point["confidence"] == 1 for point in results(work)["b.png"]["points"]] == [True, False, False]


def test_corrected_images_become_references_and_only_the_others_are_computed_again(matcher, work, monkeypatch):
    own = Matcher(matcher.model)
    references, targets = start(own, work)
    first = propagate(own, references, targets, work / "out")
    assert (first.kept, first.moved) == (0, {})
    before = results(work)
    correct(work, references, {"b.png": Correction(Status.corrected, ALL)})
    own.clear_cache()
    encoded, asked = [], []
    encode = type(own.model).encode
    monkeypatch.setattr(type(own.model), "encode", lambda model, given: encoded.append(1) or encode(model, given))
    monkeypatch.setattr(module, "propagate_to", lambda *given: asked.append(given) or propagate_to(*given))
    summary = propagate(own, references, targets, work / "out")
    assert len(asked) == 3
    assert len(encoded) == 1  # the first reference; the targets' features were kept
    assert summary.kept == 1
    assert summary.next in {"a.png", EVIL, "more/c.png"}
    now = results(work)
    assert [(p["x"], p["y"]) for p in now["b.png"]["points"] if p["matched"]] == [(11.125, 22.0), (100.0, 8.5)]
    with Image.open(work / "targets" / "b.png") as image:
        further = Reference(own.read(image.convert("RGB")), make_points([ALL["nose"], ALL["paw"]], ["nose", "paw"]))
    for name in ("a.png", EVIL, "more/c.png"):
        expected = propagate_to(own, [*references, further], work / "targets" / name)
        found = np.array([(point["x"], point["y"]) for point in now[name]["points"]])
        np.testing.assert_allclose(found, expected.points, atol=6e-4)
    assert results(work, "previous.jsonl") == before
    assert summary.moved == count_moved(before, now.values())


def test_a_round_that_was_stopped_resumes_and_ends_as_an_unbroken_one(matcher, work, monkeypatch):
    references, targets = start(matcher, work)
    propagate(matcher, references, targets, work / "out")
    correct(work, references, {"b.png": Correction(Status.corrected, ALL)})
    shutil.copytree(work / "out", work / "unbroken")
    summary = propagate(matcher, references, targets, work / "unbroken")
    calls = []

    def stopping(*given):
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append(given)
        return propagate_to(*given)

    monkeypatch.setattr(module, "propagate_to", stopping)
    with pytest.raises(KeyboardInterrupt):
        propagate(matcher, references, targets, work / "out")
    monkeypatch.setattr(module, "propagate_to", lambda *given: calls.append(given) or propagate_to(*given))
    assert propagate(matcher, references, targets, work / "out") == summary
    assert len(calls) == 3
    assert {p.relative_to(work / "out"): c for p, c in contents(work / "out").items()} == {
        p.relative_to(work / "unbroken"): c for p, c in contents(work / "unbroken").items()
    }


def test_overwriting_keeps_corrections(matcher, work):
    references, targets = start(matcher, work)
    propagate(matcher, references, targets, work / "out")
    correct(work, references, {"b.png": Correction(Status.accepted, ALL)})
    assert propagate(matcher, references, targets, work / "out", overwrite=True).kept == 1
    assert results(work)["b.png"]["status"] == "accepted"


def test_a_partly_corrected_image_does_not_confirm_itself(matcher, work):
    references, targets = start(matcher, work)
    (work / "out").mkdir()
    correct(work, references, {"b.png": Correction(Status.corrected, {"nose": (3.0, 4.0)})})
    propagate(matcher, references, targets, work / "out")
    line = results(work)["b.png"]["points"]
    alone = propagate_to(matcher, references, work / "targets" / "b.png")
    assert (line[0]["x"], line[0]["y"]) == (3.0, 4.0)
    np.testing.assert_allclose([(p["x"], p["y"]) for p in line[1:]], alone.points[1:], atol=6e-4)


@pytest.mark.parametrize(
    ("images", "says"),
    [
        ({"gone.png": Correction(Status.accepted, {})}, "names 'gone.png', which is not among the 4 targets"),
        ({"a.png": Correction(Status.accepted, {"ear": None})}, r"images\['a.png'\].points names 'ear'"),
        ({"a.png": Correction(Status.accepted, {"nose": (121.0, 3.0)})}, r"images\['a.png'\]: point 1, \(121, 3\)"),
    ],
)
def test_corrections_that_cannot_be_used_leave_everything_as_it_is(matcher, work, images, says):
    references, targets = start(matcher, work)
    propagate(matcher, references, targets, work / "out")
    made_for = tuple(annotated(each.loaded.image, each.points) for each in references)
    write_corrections(work / "given.json", Corrections(made_for, images))
    before = contents(work)
    with pytest.raises(InputError, match=says):
        propagate(matcher, references, targets, work / "out", corrections=work / "given.json")
    assert contents(work) == before


@pytest.mark.parametrize("suffix", [".json", ".csv", ".coco.json"])
def test_a_given_file_that_is_damaged_or_of_other_images_is_named(matcher, work, suffix):
    references, targets = start(matcher, work)
    path = work / f"given{suffix}"
    path.write_text("{" if suffix != ".csv" else "x,y\nleft,3\n")
    with pytest.raises(InputError, match="given"):
        propagate(matcher, references, targets, work / "out", corrections=path)
    write_points(path, {"gone.png": make_points([(1, 2)], ["nose"])}, overwrite=True)
    with pytest.raises(InputError, match=r"given.* names 'gone\.png'"):
        propagate(matcher, references, targets, work / "out", corrections=path)
    write_points(path, {"a.png": make_points([(1, 2)], ["ear"])}, overwrite=True)
    with pytest.raises(InputError, match=r"given.*'a\.png' has a point 'ear', but the reference has 'nose', 'tail'"):
        propagate(matcher, references, targets, work / "out", corrections=path)
    assert not (work / "out").exists()


def test_another_threshold_changes_the_flags_and_neither_places_nor_scores(matcher, work, monkeypatch):
    references, targets = start(matcher, work)
    propagate(matcher, references, targets, work / "out")
    before = results(work)
    scores = sorted(point["confidence"] for line in before.values() for point in line["points"])
    middle = scores[len(scores) // 2]
    monkeypatch.setattr(matcher, "calibration", Calibration(threshold=middle))
    summary = propagate(matcher, references, targets, work / "out")
    assert summary.unmatched in range(1, len(scores))
    coco = json.loads((work / "out" / "points.coco.json").read_text())
    for image, annotation in zip(coco["images"], coco["annotations"], strict=True):
        name = image["file_name"]
        triples = np.array(annotation["keypoints"]).reshape(-1, 3)
        points = results(work)[name]["points"]
        assert [p["confidence"] for p in points] == [p["confidence"] for p in before[name]["points"]]
        np.testing.assert_allclose(triples[:, :2], [(p["x"], p["y"]) for p in before[name]["points"]])
        assert annotation["keypoint_scores"] == [p["confidence"] for p in points]
        assert triples[:, 2].tolist() == [2 if p["matched"] else 1 for p in points]


def test_the_next_image_is_doubtful_and_far_from_every_reference():
    def line(image, confidence, distance, **more):
        return {"image": image, "points": [{"confidence": confidence}], "distance": distance, **more}

    far_and_sure, near_and_doubtful = line("far", 0.95, 0.5), line("near", 0.1, 0.01)
    both, corrected = line("both", 0.5, 0.3), line("corrected", 0.0, 1.0, status="corrected")
    lines = [far_and_sure, near_and_doubtful, both, corrected, {"image": "broken", "error": "?"}]
    assert expected_gain(both) == pytest.approx(0.15)
    assert next_to_correct(lines) == "both"
    assert next_to_correct([corrected]) is None


def test_the_distance_is_zero_for_the_reference_itself_and_grows_with_difference(matcher, work):
    shutil.copy(work / "ref.png", work / "targets" / "same.png")
    references, targets = start(matcher, work)
    propagate(matcher, references, targets, work / "out")
    distances = {name: line["distance"] for name, line in results(work).items()}
    assert distances["same.png"] == pytest.approx(0, abs=1e-4)
    reference = describe_image(matcher.encode(work / "ref.png"))
    for name in NAMES:
        other = describe_image(matcher.encode(work / "targets" / name))
        assert distances[name] == pytest.approx(1 - float(reference @ other), abs=1e-4)


def test_points_count_as_moved_beyond_a_twentieth_of_the_longer_side():
    def line(x, **more):
        return {"image": "a", "size": [100, 50], "points": [{"name": "nose", "x": x, "y": 3.0, **more}]}

    assert count_moved({"a": line(10.0)}, [line(15.1)]) == {"a": 1}
    assert count_moved({"a": line(10.0)}, [line(14.9)]) == {}
    assert count_moved({"a": line(10.0)}, [line(90.0, absent=True)]) == {}
    assert count_moved({"a": line(10.0)}, [{**line(90.0), "status": "corrected"}]) == {}
    assert count_moved({}, [line(15.1)]) == {}


def test_features_that_would_take_too_much_room_are_not_kept(matcher, work, monkeypatch):
    monkeypatch.setattr(module, "FEATURES_BYTES", 1)
    references, targets = start(matcher, work)
    propagate(matcher, references, targets, work / "out")
    assert not (work / "out" / "cache").exists()
    assert os.listdir(work / "out")


def test_the_folder_says_where_its_references_are(matcher, work):
    references, targets = start(matcher, work)
    propagate(matcher, references, targets, work / "out")
    path = work / "out" / "references.json"
    again = read_references(matcher, [work / "ref.png"], path)
    assert list(read_annotations(path)) == [str(work / "ref.png")]
    assert annotated(again[0].loaded.image, again[0].points) == annotated(
        references[0].loaded.image, references[0].points
    )
