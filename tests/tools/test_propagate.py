import csv
import json
import os

import numpy as np
import pytest
from PIL import Image

from mambamatcher import Matcher
from mambamatcher.errors import InputError
from mambamatcher.io.points import make_points, read_annotations, write_points
from mambamatcher.jobs.source import list_targets, read_source
from mambamatcher.tools import propagate as module
from mambamatcher.tools.corrections import Correction, Status
from mambamatcher.tools.outputs import FORMATS
from mambamatcher.tools.propagate import propagate, propagate_each
from mambamatcher.tools.references import combine_answers, propagate_to, read_references
from mambamatcher.tools.review import doubt, make_review
from tests.tools.conftest import picture

SIZE = (200, 100)  # answers 10 pixels apart are one "agreement" apart


def test_one_reference_is_taken_as_it_is():
    point, confidence = combine_answers(np.array([[30.0, 40.0]]), np.array([0.6]), SIZE)
    np.testing.assert_allclose(point, [30, 40])
    assert confidence == pytest.approx(0.6)


def test_references_that_agree_are_averaged_by_confidence():
    point, confidence = combine_answers(np.array([[30.0, 40.0], [30.0, 40.0]]), np.array([0.8, 0.6]), SIZE)
    np.testing.assert_allclose(point, [30, 40])
    assert confidence == pytest.approx((0.64 + 0.36) / 1.4)
    near, _ = combine_answers(np.array([[30.0, 40.0], [30.1, 40.0]]), np.array([0.75, 0.25]), SIZE)
    np.testing.assert_allclose(near, [30.025, 40], atol=1e-3)


def test_of_two_that_differ_the_more_confident_is_kept_with_less_confidence_than_it_had():
    point, confidence = combine_answers(np.array([[20.0, 40.0], [180.0, 40.0]]), np.array([0.6, 0.8]), SIZE)
    np.testing.assert_allclose(point, [180, 40])
    assert confidence == pytest.approx(0.64 / 1.4)


def test_two_that_agree_outvote_a_more_confident_third():
    points = np.array([[180.0, 90.0], [20.0, 40.0], [21.0, 41.0]])
    point, _ = combine_answers(points, np.array([0.8, 0.6, 0.6]), SIZE)
    np.testing.assert_allclose(point, [20.5, 40.5], atol=0.1)


def test_references_without_an_idea_do_not_spoil_a_sure_one():
    points = np.array([[50.0, 50.0], [10.0, 10.0], [190.0, 10.0], [10.0, 90.0]])
    point, confidence = combine_answers(points, np.array([0.9, 0.02, 0.02, 0.02]), SIZE)
    np.testing.assert_allclose(point, [50, 50])
    assert confidence > 0.8
    assert np.isfinite(combine_answers(points, np.zeros(4), SIZE)[0]).all()


@pytest.fixture
def work(tmp_path):
    """Two annotated references and a folder of four targets, one of them no picture."""
    for number in (1, 2):
        picture(seed=number).save(tmp_path / f"ref{number}.png")
    points = {
        "ref1.png": make_points([(10, 20), (45, 30)], ["nose", "tail"]),
        "ref2.png": make_points([(50, 20), (5, 30), (70, 7)], ["nose", "paw", "tail"], [2, 2, 0]),
    }
    write_points(tmp_path / "refs.csv", points)
    (tmp_path / "targets" / "more").mkdir(parents=True)
    for number, name in enumerate(("a.png", "b <i>.png", "more/c.png")):
        picture(120, 80, seed=10 + number).save(tmp_path / "targets" / name)
    (tmp_path / "targets" / "broken.jpg").write_bytes(b"no picture")
    (tmp_path / "targets" / "notes.txt").write_text("not a target")
    (tmp_path / "targets" / ".hidden.png").write_bytes(b"")
    return tmp_path


NAMES = ["a.png", "b <i>.png", "broken.jpg", "more/c.png"]


def references(matcher, work):
    return read_references(matcher, [work / "ref1.png", work / "ref2.png"], work / "refs.csv")


def test_a_target_gets_every_name_and_a_single_reference_is_a_plain_match(matcher, work):
    both = references(matcher, work)
    found = propagate_to(matcher, both, work / "targets" / "a.png")
    assert found.names == ("nose", "tail", "paw")
    alone = matcher.match(work / "ref2.png", work / "targets" / "a.png", [(50, 20), (5, 30)])
    np.testing.assert_allclose(found.points[2], alone.points[1], atol=1e-3)
    np.testing.assert_array_equal(found.matched, found.confidence >= matcher.calibration.threshold)
    single = propagate_to(matcher, both[1:], work / "targets" / "a.png")
    np.testing.assert_allclose(single.points, alone.points, atol=1e-3)
    np.testing.assert_allclose(single.confidence, alone.confidence, atol=1e-4)


def test_a_folder_is_done_in_every_format_and_what_cannot_be_read_is_reported(matcher, work):
    summary = propagate(matcher, references(matcher, work), read_source(work / "targets"), work / "out")
    assert (summary.targets, summary.unreadable) == (4, 1)
    lines = [json.loads(line) for line in (work / "out" / "points.jsonl").read_text().splitlines()][1:]
    assert [line["image"] for line in lines] == NAMES == list_targets(work / "targets")
    assert "not a readable image" in lines[2]["error"]
    coco = read_annotations(work / "out" / "points.coco.json")
    assert set(coco) == set(NAMES) - {"broken.jpg"}
    with (work / "out" / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    assert float(rows[0]["x"]) == lines[0]["points"][0]["x"]
    assert float(rows[0]["confidence"]) == lines[0]["points"][0]["confidence"]
    unmatched = sum(not point["matched"] for line in lines if "error" not in line for point in line["points"])
    assert summary.unmatched == unmatched == sum(row["visibility"] == "1" for row in rows)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_stopped_run_goes_on_and_ends_as_an_unbroken_one(matcher, work, monkeypatch, after):
    both = references(matcher, work)
    propagate(matcher, both, read_source(work / "targets"), work / "unbroken")
    calls = []

    def stopping(*arguments):
        if len(calls) == after:
            raise KeyboardInterrupt
        calls.append(arguments)
        return propagate_to(*arguments)

    monkeypatch.setattr(module, "propagate_to", stopping)
    with pytest.raises(KeyboardInterrupt):
        propagate(matcher, both, read_source(work / "targets"), work / "out")
    with (work / "out" / "points.jsonl").open("ab") as file:
        file.write(b'{"image": "torn')
    monkeypatch.setattr(module, "propagate_to", lambda *arguments: calls.append(arguments) or propagate_to(*arguments))
    propagate(matcher, both, read_source(work / "targets"), work / "out")
    assert len(calls) == 3  # each readable target once
    for name in ("points.jsonl", "points.csv", "points.coco.json", "review.html"):
        assert (work / "out" / name).read_bytes() == (work / "unbroken" / name).read_bytes()


@pytest.mark.parametrize("gathered", [100_000, 2], ids=["one file", "shards"])
def test_a_target_exchanged_after_it_was_done_is_done_again(matcher, work, monkeypatch, gathered):
    monkeypatch.setattr(module, "GATHERED", gathered)
    both, target = references(matcher, work), work / "targets" / "more" / "c.png"
    propagate(matcher, both, read_source(work / "targets"), work / "out")
    kept, size = target.stat(), (120, 80)
    picture(*size, seed=99).save(target)
    os.utime(target, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # an exchange that keeps the time
    propagated = []
    monkeypatch.setattr(
        module, "propagate_to", lambda *arguments: propagated.append(arguments) or propagate_to(*arguments)
    )
    propagate(matcher, both, read_source(work / "targets"), work / "out")
    assert len(propagated) == 1
    propagate(matcher, both, read_source(work / "targets"), work / "new")
    names = ["points.jsonl"] if gathered > 4 else [f"parts/part-{number:06}.jsonl" for number in range(4)]
    for name in names:
        assert (work / "out" / name).read_bytes() == (work / "new" / name).read_bytes()


def test_a_file_name_that_is_not_text_does_not_spoil_the_results(matcher, work):
    name = os.fsdecode(b"caf\xe9.png")
    picture(seed=5).save(work / "targets" / name)
    propagate(matcher, references(matcher, work), read_source(work / "targets"), work / "out")
    assert b"caf\xe9.png" in (work / "out" / "points.csv").read_bytes()
    assert name in read_annotations(work / "out" / "points.coco.json")
    assert "caf?.png" in (work / "out" / "review.html").read_text()


def test_results_of_another_run_and_files_of_the_users_are_not_mixed_in(matcher, work):
    both = references(matcher, work)
    propagate(matcher, both, read_source(work / "targets"), work / "out")
    with pytest.raises(InputError, match="another set of references"):
        propagate(matcher, both[:1], read_source(work / "targets"), work / "out")
    propagate(matcher, both[:1], read_source(work / "targets"), work / "out", overwrite=True)
    (work / "mine").mkdir()
    (work / "mine" / "points.csv").write_text("mine")
    with pytest.raises(InputError, match=r"points\.csv exists already"):
        propagate(matcher, both, read_source(work / "targets"), work / "mine")
    assert [path.name for path in (work / "mine").iterdir()] == ["points.csv"]
    with pytest.raises(InputError, match=r"cannot use .*points\.csv as a folder"):
        propagate(matcher, both, read_source(work / "targets"), work / "mine" / "points.csv")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"size": [120, 80]', '"size": null', "the result of a.png: size must be a list"),
        ('"matched": ', '"match": ', "the result of a.png: the field 'matched' is missing"),
        ('"x": ', '"x": "left", "z": ', "the result of a.png: expected a finite number, got 'left'"),
    ],
)
def test_a_damaged_result_is_named_and_not_written_in_any_format(matcher, work, old, new, says):
    both, source = references(matcher, work), read_source(work / "targets")
    propagate(matcher, both, source, work / "out")
    results = work / "out" / "points.jsonl"
    (work / "out" / "written.json").unlink()  # as in a run that was stopped
    for name in FORMATS:
        (work / "out" / name).unlink()
    results.write_text(results.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=says):
        propagate(matcher, both, source, work / "out")


def test_a_run_that_overwrites_resumes_after_a_stop(matcher, work, monkeypatch):
    both, source = references(matcher, work), read_source(work / "targets")
    propagate(matcher, both, source, work / "out")
    calls = []

    def stopping(*arguments):
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append(arguments)
        return propagate_to(*arguments)

    monkeypatch.setattr(module, "propagate_to", stopping)
    with pytest.raises(KeyboardInterrupt):
        propagate(matcher, both[:1], source, work / "out", overwrite=True)
    left = {path.name for path in (work / "out").iterdir()}
    assert left == {"points.jsonl", "written.json", "references.json", "cache"}  # the others were of another run
    monkeypatch.setattr(module, "propagate_to", lambda *given: calls.append(given) or propagate_to(*given))
    assert propagate(matcher, both[:1], source, work / "out").targets == 4
    assert len(calls) == 3


def test_references_that_cannot_be_used_are_refused(matcher, work):
    (work / "one.json").write_text("[[1, 2]]")
    with pytest.raises(InputError, match="does not say which image"):
        read_references(matcher, [work / "ref1.png", work / "ref2.png"], work / "one.json")
    write_points(work / "hidden.csv", {"ref1.png": make_points([(1, 2)], visibility=[1])})
    with pytest.raises(InputError, match="no visible point"):
        read_references(matcher, [work / "ref1.png"], work / "hidden.csv")
    (work / "far.json").write_text("[[1, 200]]")
    with pytest.raises(InputError, match="outside the source image"):
        read_references(matcher, [work / "ref1.png"], work / "far.json")
    for folder, says in ((work / "gone", "not a folder"), (work / "out", "no images")):
        (work / "out").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=says):
            list_targets(folder)


def test_the_page_puts_the_doubtful_first_and_shows_names_as_text(work):
    def line(image, *confidence):
        points = [
            {"name": "<b>&'", "x": 1.0, "y": 2.0, "confidence": value, "matched": value > 0.5} for value in confidence
        ]
        return {"image": image, "size": [120, 80], "points": points}

    sure, doubtful = line("a.png", 0.9, 0.8), line("b <i>.png", 0.7, 0.1)
    broken = {"image": "broken.jpg", "error": "<script>"}
    assert [doubt(each) for each in (sure, doubtful, broken)] == pytest.approx([0.15, 0.6, 1.0])
    lines = [sure, broken, doubtful]
    reference = ("<u>.png", Image.new("RGB", (40, 30)), make_points([(1, 2)], ["<b>&'"]))
    page = make_review(lambda names: [(name, work / "targets" / name) for name in names], lines, [reference])
    assert page.index("&lt;u&gt;.png") < page.index("broken.jpg") < page.index("b &lt;i&gt;.png") < page.index("a.png")
    for raw in ("<i>", "<u>", "<script>", "<b>&'", "http://", "https://"):
        assert raw not in page
    assert page.count("<circle") == 5
    assert page.count("1<tspan class=name> &lt;b&gt;&amp;&#x27;</tspan>") == 5
    assert page.count("fill='none'") == 1
    assert page.count("data:image/jpeg;base64,") == 3


def test_the_references_are_described_once_however_many_targets_there_are(matcher, work, monkeypatch):
    own = Matcher(matcher.model)
    encoded = []
    encode = type(matcher.model).encode
    monkeypatch.setattr(
        type(matcher.model), "encode", lambda model, images: encoded.extend(images) or encode(model, images)
    )
    propagate(own, references(own, work), read_source(work / "targets"), work / "out")
    assert len(encoded) == 2 + 3


def test_a_long_run_remembers_its_references_and_none_of_its_targets(matcher, work):
    own = Matcher(matcher.model)
    targets = [(str(seed), picture(seed=seed)) for seed in range(60, 65)]
    held = [set(own._store._memory._entries) for _ in propagate_each(own, references(own, work)[:1], targets)]
    assert [len(each) for each in held] == [3] * 5  # the reference, this target, and both compared
    assert set(own._store._memory._entries) == set.intersection(*held)
    assert len(own._store._memory._entries) == 1


def test_targets_encoded_at_once_give_the_same_results_in_the_same_order(tmp_path):
    picture(300, 200).save(tmp_path / "reference.png")
    points = make_points([(40.0, 30.0), (200.0, 150.0)], ["a", "b"])
    write_points(tmp_path / "points.json", {"reference.png": points})
    targets = [(f"{number}", picture(300, 200, seed=number % 4)) for number in range(7)]  # the first is the reference
    targets.insert(3, ("damaged", b"no picture"))
    corrections = {
        "2": Correction(Status.corrected, {"a": (1.0, 2.0), "b": None}),
        "5": Correction(Status.corrected, {"a": (1.0, 2.0)}),
    }
    found = []
    for threads in (1, 3):
        matcher = Matcher.from_pretrained("lite", runtime="onnx", threads=threads, cache_bytes=0)
        references = read_references(matcher, [tmp_path / "reference.png"], tmp_path / "points.json")
        found.append(list(propagate_each(matcher, references, targets, corrections)))
    assert [each["image"] for each in found[0]] == [name for name, _ in targets]
    for alone, at_once in zip(*found, strict=True):
        for one, other in zip(alone.pop("points", []), at_once.pop("points", []), strict=True):
            assert one == pytest.approx(other, abs=1e-3)
        assert alone.pop("distance", 0) == pytest.approx(at_once.pop("distance", 0), abs=1e-3)
        assert alone == at_once
