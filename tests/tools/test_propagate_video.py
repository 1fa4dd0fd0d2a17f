"""`propagate` with a video as its target."""

import csv
import json
import weakref
from functools import partial

import av
import numpy as np
import pytest
from PIL import Image

from mambamatcher import Matcher
from mambamatcher.errors import InputError
from mambamatcher.io.frame_selection import FrameSelection, Position
from mambamatcher.io.points import make_points, read_annotations, write_points
from mambamatcher.jobs import source as source_module
from mambamatcher.jobs.ray_engine import RayEngine
from mambamatcher.jobs.source import read_source, read_video
from mambamatcher.model.saved import SHIPPED
from mambamatcher.tools import propagate as module
from mambamatcher.tools.outputs import Outputs
from mambamatcher.tools.propagate import propagate
from mambamatcher.tools.references import propagate_to, read_references
from mambamatcher.tools.reviewing import ReviewedRun
from tests.clips import noise, write_clip
from tests.helpers import run_cli
from tests.tools.conftest import picture

PHOTOS = SHIPPED["lite"].parent / "photos"
FILES = {"points.jsonl", "points.csv", "points.coco.json", "points.dlc.csv", "overlay.mp4", "paths.png", "review.html"}
ALL = FrameSelection()


@pytest.fixture
def work(tmp_path):
    """An annotated reference, and a clip of twelve frames that differ."""
    picture(seed=1).save(tmp_path / "ref.png")
    write_points(tmp_path / "ref.csv", {"ref.png": make_points([(10, 20), (45, 30)], ["nose", "=tail"])})
    write_clip(tmp_path / "clip.mp4", [picture(120, 80, seed=10 + number) for number in range(12)])
    return tmp_path


def references(matcher, work):
    return read_references(matcher, [work / "ref.png"], work / "ref.csv")


def lines(out):
    return [json.loads(line) for line in (out / "points.jsonl").read_text().splitlines()][1:]


def run(matcher, work, selection=ALL, out="out", smooth=False, **options):
    targets, outputs = read_video(work / "clip.mp4", selection), Outputs(smooth=smooth)
    return propagate(matcher, references(matcher, work), targets, work / out, outputs=outputs, **options)


def test_the_points_follow_a_photo_that_moves_by_known_pixels(tmp_path):
    photo = Image.open(PHOTOS / "cat.jpg").convert("RGB")  # 451x300
    offsets = [(8 * number, 3 * number) for number in range(5)]
    frames = [photo.crop((x, y, x + 400, y + 280)) for x, y in offsets]
    clip = write_clip(tmp_path / "clip.mp4", frames, crf="15")
    matcher = Matcher.from_pretrained("lite")
    given = read_references(matcher, [PHOTOS / "cat.jpg"], PHOTOS / "cat.json")
    propagate(matcher, given, read_video(clip, ALL), tmp_path / "out")
    expected = {
        name: place
        for name, place in zip(given[0].points.names, given[0].points.points, strict=True)
        if name in ("left eye", "right eye", "nose", "mouth")  # which every frame shows
    }
    assert len(expected) == 4
    for line, offset in zip(lines(tmp_path / "out"), offsets, strict=True):
        found = {point["name"]: (point["x"], point["y"]) for point in line["points"]}
        error = [np.linalg.norm(np.array(found[name]) - (place - offset)) for name, place in expected.items()]
        assert np.mean(error) < 8  # of 451 pixels; the photo has moved by 34 in the last frame


def test_every_format_has_a_row_for_each_selected_frame(matcher, work):
    summary = run(matcher, work, FrameSelection(every=4, start=Position.parse("3f")))
    assert (summary.targets, summary.unreadable, summary.damage) == (3, 0, None)
    names = ["clip.mp4#3", "clip.mp4#7", "clip.mp4#11"]
    found = lines(work / "out")
    assert [line["image"] for line in found] == names
    assert [(line["frame"], line["time"]) for line in found] == [(3, 0.12), (7, 0.28), (11, 0.44)]
    assert len({line["content"] for line in found}) == 1
    for file in ("points.csv", "points.coco.json"):
        assert list(read_annotations(work / "out" / file)) == names
    with (work / "out" / "points.dlc.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[:3] == [
        ["scorer", *["mambamatcher"] * 6],
        ["bodyparts", *["nose"] * 3, *["'=tail"] * 3],
        ["coords", "x", "y", "likelihood", "x", "y", "likelihood"],
    ]
    assert [row[0] for row in rows[3:]] == ["3", "7", "11"]
    for row, line in zip(rows[3:], found, strict=True):
        values = [point[key] for point in line["points"] for key in ("x", "y", "confidence")]
        assert [float(cell) for cell in row[1:]] == values
    assert {path.name for path in (work / "out").iterdir()} >= FILES
    assert (work / "out" / "review.html").read_text().count("data:image/jpeg") == 4
    with av.open(str(work / "out" / "overlay.mp4")) as overlay:
        stream = overlay.streams.video[0]
        assert [frame.time for frame in overlay.decode(stream)] == pytest.approx([0, 0.16, 0.32])
        assert (stream.codec_context.name, stream.average_rate) == ("h264", 6.25)
        assert (stream.width, stream.height) == (120, 108)
    assert Image.open(work / "out" / "paths.png").format == "PNG"


def test_smoothed_points_are_written_beside_those_found(matcher, work):
    run(matcher, work)
    assert not list((work / "out").glob("smoothed*"))
    before = {name: (work / "out" / name).read_bytes() for name in ("points.jsonl", "points.csv", "points.dlc.csv")}
    drawn = {name: (work / "out" / name).read_bytes() for name in ("overlay.mp4", "paths.png")}
    run(matcher, work, smooth=True)
    assert {name: (work / "out" / name).read_bytes() for name in before} == before
    assert all((work / "out" / name).read_bytes() != old for name, old in drawn.items())
    raw, smoothed = (read_annotations(work / "out" / name) for name in ("points.csv", "smoothed.csv"))
    assert list(raw) == list(smoothed) == list(read_annotations(work / "out" / "smoothed.coco.json"))
    assert any((raw[name].points != smoothed[name].points).any() for name in raw)
    (work / "out" / "smoothed.csv").unlink()
    run(matcher, work)  # asked for once, a folder keeps them up to date
    assert read_annotations(work / "out" / "smoothed.csv").keys() == raw.keys()


def test_a_stopped_run_resumes_and_ends_as_an_unbroken_one(matcher, work, monkeypatch):
    run(matcher, work, out="unbroken")
    calls = []

    def stopping(*arguments):
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(arguments)
        return propagate_to(*arguments)

    monkeypatch.setattr(module, "propagate_to", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(matcher, work)
    monkeypatch.setattr(module, "propagate_to", lambda *given: calls.append(given) or propagate_to(*given))
    run(matcher, work)
    assert len(calls) == 12
    for name in FILES - {"overlay.mp4"}:
        assert (work / "out" / name).read_bytes() == (work / "unbroken" / name).read_bytes(), name


def test_another_selection_and_a_changed_overlay_are_not_mixed_in(matcher, work):
    run(matcher, work, FrameSelection(every=6))
    with pytest.raises(InputError, match=r"another run \(frames\.every was 6, now 5\)"):
        run(matcher, work, FrameSelection(every=5))
    overlay = work / "out" / "overlay.mp4"
    overlay.write_bytes(b"mine")
    with pytest.raises(InputError, match=r"overlay\.mp4 was changed since it was written and is not replaced"):
        run(matcher, work, FrameSelection(every=6))
    assert overlay.read_bytes() == b"mine"
    (work / "other").mkdir()
    (work / "other" / "paths.png").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"paths\.png exists already"):
        run(matcher, work, out="other")


def test_a_video_that_was_exchanged_is_done_again(matcher, work, monkeypatch):
    few = FrameSelection(every=6)
    run(matcher, work, few)
    write_clip(work / "clip.mp4", [picture(120, 80, seed=50 + number) for number in range(12)])
    calls = []
    monkeypatch.setattr(module, "propagate_to", lambda *given: calls.append(given) or propagate_to(*given))
    run(matcher, work, few)
    assert len(calls) == 2
    run(matcher, work, few)
    assert len(calls) == 2


def test_a_corrected_frame_is_kept_and_is_a_reference_for_the_others(matcher, work):
    few = FrameSelection(every=3)
    run(matcher, work, few)
    found = read_annotations(work / "out" / "points.csv")
    found["clip.mp4#3"].points[0] = 33, 44
    write_points(work / "out" / "points.csv", found, overwrite=True)
    summary = run(matcher, work, few, corrections=work / "out" / "points.csv", smooth=True)
    assert summary.kept == 1
    for name in ("points.csv", "smoothed.csv"):
        assert read_annotations(work / "out" / name)["clip.mp4#3"].points[0].tolist() == [33, 44]


def test_a_run_over_a_video_can_be_reviewed_and_repeated(matcher, work):
    run(matcher, work, FrameSelection(every=5))
    opened = ReviewedRun(work / "out")
    assert set(opened.results) == {"clip.mp4#0", "clip.mp4#5", "clip.mp4#10"}
    assert opened.image("clip.mp4#10").size == (120, 80)
    assert opened.repeat(matcher).targets == 3


def test_few_frames_are_in_memory_at_any_moment(matcher, work, monkeypatch):
    alive, most = [], 0
    read = source_module.read_frames

    def counting(path, numbers):
        nonlocal most
        for number, image in read(path, numbers):
            alive.append(weakref.ref(image))
            most = max(most, sum(each() is not None for each in alive))
            yield number, image
            del image

    monkeypatch.setattr(source_module, "read_frames", counting)
    write_clip(work / "clip.mp4", [picture(120, 80, seed=number) for number in range(40)])
    run(matcher, work)
    assert len(alive) == 3 * 40  # matched, drawn, and on the page
    assert most <= source_module.AHEAD + 2


def test_a_truncated_video_gives_what_could_be_read_and_one_sentence(matcher, work, monkeypatch, capsys):
    clip = write_clip(work / "clip.mp4", [noise(seed) for seed in range(20)], g="5")
    clip.write_bytes(clip.read_bytes()[: clip.stat().st_size // 2])
    monkeypatch.setattr("mambamatcher.cli.match.load_matcher", lambda *_: matcher)
    command = ("propagate", work / "ref.png", clip, "--points-file", work / "ref.csv", "--out", work / "out", "--json")
    code, out, err = run_cli(monkeypatch, capsys, *command)
    assert code == 0
    said = [line for line in err.splitlines() if line.startswith("mambamatcher: ")]
    summary = json.loads(out)
    assert said == [f"mambamatcher: {summary['damage']}"]
    assert 5 <= summary["targets"] < 20
    assert len(lines(work / "out")) == summary["targets"]


def test_what_does_not_work_with_a_video_is_refused_in_one_sentence(matcher, work, monkeypatch, capsys):
    clip = read_video(work / "clip.mp4", ALL)
    monkeypatch.setattr(module, "GATHERED", 11)
    with pytest.raises(InputError, match=r"12 frames of .*clip\.mp4 are selected, and a run takes at most 11"):
        propagate(matcher, references(matcher, work), clip, work / "out")
    with pytest.raises(InputError, match="a video, which is decoded in order in this process"):
        propagate(matcher, references(matcher, work), clip, work / "out", RayEngine(None, 1))
    with pytest.raises(InputError, match="is a video; images are expected here"):
        read_source(work / "clip.mp4")
    monkeypatch.setattr("mambamatcher.cli.match.load_matcher", lambda *_: matcher)
    start = ("propagate", work / "ref.png")
    end = ("--points-file", work / "ref.csv", "--out", work / "out")
    refused = partial(run_cli, monkeypatch, capsys)
    for arguments, says in (
        ((work, "--every", 2), "--every, --from, --to and --smooth are for a video"),
        ((work / "clip.mp4", "--from", "soon"), "a position in a video is a time in seconds"),
        ((work / "clip.mp4", "--from", "9"), "no frame of"),
        ((work / "clip.mp4", "--engine", "ray"), "leave out --engine"),
        ((work / "gone.mp4",), "gone.mp4 is not a folder of images"),
    ):
        code, _, err = refused(*start, *arguments, *end)
        assert (code, err.count("\n")) == (2, 1), err
        assert says in err
    assert not (work / "out").exists()
