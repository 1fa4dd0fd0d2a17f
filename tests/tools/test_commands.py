"""The tools from the command line: good input, and bad input as one sentence."""

import json

import numpy as np
import pytest
from PIL import Image

from mambamatcher.io.points import make_points, read_points, write_points
from mambamatcher.model.checkpoint import save_pretrained
from tests.cli.test_cli import run  # noqa: F401
from tests.datasets import releases
from tests.tools.conftest import picture


@pytest.fixture
def folder(tmp_path, monkeypatch, matcher):
    """Two pictures, a mask and points of the first, a folder of two targets, and a small model; the current folder."""
    monkeypatch.chdir(tmp_path)
    save_pretrained(matcher.model, tmp_path / "model")
    (tmp_path / "targets").mkdir()
    for number, name in enumerate(("a.png", "b.png", "targets/c.png", "targets/d.png")):
        picture(seed=number).save(tmp_path / name)
    Image.new("L", (90, 60), 255).save(tmp_path / "mask.png")
    write_points(
        tmp_path / "a.csv", {"a.png": make_points([(10, 20), (50, 30), (5, 5)], ["nose", "tail", "x"], [2, 2, 0])}
    )
    return tmp_path


def small(*arguments: object) -> tuple[object, ...]:
    return *arguments, "--model", "model"


def test_match_takes_named_points_and_writes_all_it_can(run, folder):  # noqa: F811
    files = ["--out", "m.png", "--heatmap", "h.png", "--points-out", "p.coco.json"]
    code, out, _ = run(*small("match", "a.png", "b.png", "--points-file", "a.csv", "--points", "7,8", *files, "--json"))
    assert code == 0
    matches = json.loads(out)["matches"]
    assert [match["name"] for match in matches] == ["nose", "tail", "3"]  # what cannot be seen is left out
    written = read_points("p.coco.json", "b.png")
    assert written.names == ("nose", "tail", "3")
    for match, point, seen in zip(matches, written.points, written.visibility, strict=True):
        assert (seen == 2) == match["matched"]
        np.testing.assert_allclose(point, match["target"], atol=1e-3)
    assert Image.open("h.png").width == 3 * 320


def test_match_without_points_chooses_its_own(run, folder):  # noqa: F811
    code, out, _ = run(*small("match", "a.png", "b.png", "--json"))
    assert code == 0
    points = np.array([match["source"] for match in json.loads(out)["matches"]])
    assert 1 < len(points) <= 12
    assert ((points > 0) & (points < [90, 60])).all()


def test_match_gives_several_places(run, folder):  # noqa: F811
    code, out, _ = run(*small("match", "a.png", "b.png", "--points", "7,8", "--top-k", 3, "--json"))
    assert code == 0
    content = json.loads(out)
    modes = content["matches"][0]["modes"]
    assert 1 <= len(modes) <= 3
    assert modes[0]["target"] == content["matches"][0]["target"]
    code, out, _ = run(*small("match", "a.png", "b.png", "--points", "7,8", "--top-k", 3))
    assert code == 0
    assert "7.0, 8.0" in out


def test_propagate_goes_over_a_folder_and_computes_nothing_again(run, folder):  # noqa: F811
    command = small("propagate", "a.png", "targets", "--points-file", "a.csv", "--out", "out", "--json")
    code, out, err = run(*command)
    assert code == 0
    assert json.loads(out)["targets"] == 2
    assert err.endswith("targets: 2 of 2\n")
    before = (folder / "out" / "points.jsonl").read_bytes()
    code, _, err = run(*command)
    assert code == 0
    assert "targets:" not in err
    assert (folder / "out" / "points.jsonl").read_bytes() == before
    code, out, _ = run(*small("propagate", "a.png", "targets", "--points-file", "a.csv", "--out", "words"))
    assert code == 0
    assert "2 targets, 0 of them unreadable" in out
    assert {path.name for path in (folder / "words").iterdir()} == {
        "cache",
        "references.json",
        "written.json",
        "points.jsonl",
        "points.csv",
        "points.coco.json",
        "review.html",
    }


def test_warp_and_swap_write_pictures_of_the_targets_size(run, folder):  # noqa: F811
    picture(120, 80, seed=4).save("c.png")
    code, out, _ = run(
        *small("warp", "a.png", "c.png", "--mask", "mask.png", "--out", "w.png", "--matched-out", "m.png")
    )
    assert code == 0
    assert "% of the target has a match" in out
    assert Image.open("w.png").size == Image.open("m.png").size == (120, 80)
    assert Image.open("w.png").mode == "L"
    code, out, _ = run(*small("swap", "a.png", "c.png", "--source-mask", "mask.png", "--out", "s.png"))
    assert code == 0
    assert Image.open("s.png").size == (120, 80)
    for layer in ("--overlay", "--edit"):
        code, _, _ = run(*small("warp", "a.png", "c.png", layer, "b.png", "--out", f"w{layer}.png"))
        assert code == 0
        assert Image.open(f"w{layer}.png").size == (120, 80)


def test_calibrate_writes_into_a_folder(run, folder):  # noqa: F811
    names = [f"{number:06d}-one-two:cat" for number in range(6)]
    releases.write_spair(folder, [releases.spair_annotation(name, trg_bndbox=[5, 10, 45, 70]) for name in names])
    arguments = ("--dataset", "spair", "--split", "test", "--root", ".", "--out", "cal", "--limit", 6)
    code, out, err = run("calibrate", "model", *arguments)
    # an untrained model may be wrong throughout, which is said too
    assert (code == 0 and "expected calibration error" in out) or (code == 2 and "needs both kinds" in err)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["match", "a.png", "b.png", "--heatmap", "h.txt"], "image format"),
        (["match", "a.png", "b.png", "--points-out", "p.txt"], "cannot tell the format"),
        (["match", "a.png", "b.png", "--points-out", "a.csv"], "exists already"),
        (["match", "b.png", "a.png", "--points-file", "a.csv"], "no points for b.png"),
        (["propagate", "a.png", "targets", "--points-file", "gone.csv", "--out", "out"], "cannot read points"),
        (["propagate", "gone.png", "targets", "--points-file", "a.csv", "--out", "out"], "no image file"),
        (["propagate", "a.png", "nowhere", "--points-file", "a.csv", "--out", "out"], "not a folder"),
        (["warp", "a.png", "b.png", "--out", "w.png"], "give one of --mask, --overlay and --edit; 0 were given"),
        (["warp", "a.png", "b.png", "--mask", "mask.png", "--edit", "b.png", "--out", "w.png"], "2 were given"),
        (["warp", "a.png", "b.png", "--mask", "small.png", "--out", "w.png"], "they must be the same"),
        (["warp", "a.png", "b.png", "--mask", "mask.png", "--out", "a.png"], "exists already"),
        (["warp", "a.png", "b.png", "--mask", "gone.png", "--out", "w.png"], "no image file"),
        (["swap", "a.png", "b.png", "--out", "w"], "image format"),
        (["swap", "a.png", "b.png", "--target-mask", "small.png", "--out", "w.png"], "they must be the same"),
        (["calibrate", "tiny", "--dataset", "spare", "--split", "val"], "Did you mean 'spair'"),
        (["calibrate", "tiny", "--dataset", "spair", "--split", "val", "--root", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2_before_a_model_is_loaded(
    run,  # noqa: F811
    folder,
    arguments,
    says,
    monkeypatch,
):
    monkeypatch.setattr("mambamatcher.cli.match.load_matcher", lambda *_, **__: pytest.fail("a model was loaded"))
    Image.new("L", (9, 9)).save("small.png")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    code, _, err = run(*arguments)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_corrections_are_taken_in_from_a_folder_of_files(run, folder):  # noqa: F811
    command = small("propagate", "a.png", "targets", "--points-file", "a.csv", "--out", "out")
    code, _, err = run(*command, "--format", "x-anylabeling")
    assert code == 0, err
    file = folder / "out" / "x-anylabeling" / "c.json"
    content = json.loads(file.read_text())
    content["shapes"][0]["points"][0][0] += 5
    file.write_text(json.dumps(content))
    code, out, err = run(*command, "--corrections", "out/x-anylabeling")
    assert code == 0, err
    assert "1 kept as corrected" in out
    code, _, err = run(*command, "--corrections", "none.csv")
    assert code == 2
    assert err == "mambamatcher: there are no corrections at none.csv\n"


def test_targets_whose_name_no_file_can_have_are_refused(run, folder):  # noqa: F811
    code, _, err = run(*small("propagate", "a.png", "n" * 300, "--points-file", "a.csv", "--out", "out"))
    assert code == 2
    assert err.endswith("n is not a folder of images\n")
