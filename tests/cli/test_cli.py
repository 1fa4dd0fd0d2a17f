import json
import subprocess
import sys
from functools import partial

import pytest
from PIL import Image

from mambamatcher import cli
from mambamatcher.model.presets import PRESETS
from mambamatcher.model.saved import SHIPPED
from tests.helpers import noise_file, run_cli


@pytest.fixture
def run(capsys, monkeypatch):
    """Return a function that runs a command: (exit code, output, error output)."""
    return partial(run_cli, monkeypatch, capsys)


@pytest.fixture
def pair(tmp_path):
    paths = tmp_path / "a.png", tmp_path / "b.png"
    for seed, path in enumerate(paths):
        path.write_bytes(noise_file(seed=seed))
    return paths


def test_match_prints_json_and_saves_an_image(run, pair, tmp_path):
    code, out, _ = run("match", *pair, "--points", "10,20", "--points", "30.5,4", "--json", "--out", tmp_path / "m.png")
    assert code == 0
    matches = json.loads(out)["matches"]
    assert [m["source"] for m in matches] == [[10, 20], [30.5, 4]]
    assert Image.open(tmp_path / "m.png").size[1] == 508


def test_match_reads_points_from_a_file_and_prints_a_table(run, pair, tmp_path):
    for name, content in (("list.json", [[1, 2]]), ("named.json", {"points": [[1, 2]]})):
        (tmp_path / name).write_text(json.dumps(content))
        code, out, _ = run("match", *pair, "--points-file", tmp_path / name)
        assert code == 0
        assert "1.0, 2.0" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--points", "10"], "a point is written as two numbers x,y"),
        (["--points", "10,999"], "outside the source image"),
        (["--points", "1,1", "--heatmap", "taken.png"], "exists already"),
        (["--points", "1,1", "--model", "nearst"], "Did you mean 'nearest'"),
        (
            ["--points", "1,1", "--model", "lit"],
            "Did you mean 'lite'? Known: chm, default, efficientnet, hccnet, lite, ncnet",
        ),
        (["--points-file", "gone.json"], "cannot read points"),
        (["--points-file", "bad.json"], "must be JSON"),
        (["--points", "1,1", "--out", "taken.png"], "exists already"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, pair, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"dots": 3}')
    (tmp_path / "taken.png").write_bytes(b"mine")
    code, out, err = run("match", *pair, *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err + out
    assert (tmp_path / "taken.png").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--preset", "papr"],
            "unknown model 'papr'. Did you mean 'paper'? Known: chm, default, efficientnet, hccnet, lite",
        ),
        (['backbone.facets=["tokn"]'], "unknown facet 'tokn'. Did you mean 'token'? Known: key, query, token, value."),
        (["--preset", "tiny", "backbone.layers=[4]"], "'dinov2-tiny' has layers 0 to 3; there is no layer 4"),
        (["--preset", "tiny", "backbone.layers=[-1]"], "'dinov2-tiny' has layers 0 to 3; there is no layer -1"),
        (["correlation.positional=sinus"], "Did you mean 'sinusoidal'? Known: learnable, none, sinusoidal."),
    ],
)
def test_a_name_that_does_not_exist_is_answered_with_those_that_do(run, arguments, message):
    code, out, err = run("info", *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err + out


def test_none_can_be_typed_as_the_name_of_a_positional_encoding(run):
    code, out, _ = run("info", "--preset", "tiny", "correlation.positional=none", "--json")
    assert code == 0
    assert json.loads(out)["config"]["correlation"]["positional"] == "none"


def test_a_missing_image_is_refused_before_a_model_is_loaded(run, pair):
    code, _, err = run("match", pair[0], pair[1].with_name("gone.png"), "--points", "1,1")
    assert code == 2
    assert "gone.png" in err
    assert "Traceback" not in err


def test_info_counts_the_papers_model(run):
    code, out, _ = run("info", "--json")
    assert code == 0
    report = json.loads(out)
    by_name = {stage["name"]: stage for stage in report["stages"]}
    assert by_name["features"]["parameters"] == 42_471_168
    assert by_name["features"]["paper_parameters"] == "42.5M"
    assert report["config"]["side"] == 420


def test_info_quotes_no_paper_numbers_for_another_configuration(run):
    code, out, _ = run("info", "--preset", "tiny", "features.kernel_size=5", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["config"]["features"]["kernel_size"] == 5
    assert not any(stage["paper_parameters"] for stage in report["stages"])


@pytest.mark.parametrize("arguments", [["--preset", "papr"], ["features.kernel_sise=3"], ["backbone.facets=[]"]])
def test_info_refuses_unknown_and_invalid_values(run, arguments):
    code, _, err = run("info", *arguments)
    assert code == 2
    assert err.startswith("mambamatcher: ")


@pytest.mark.parametrize("command", [command.name for command in cli.app.registered_commands])
def test_the_help_of_every_command_has_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Example: mambamatcher" in " ".join(out.split())


def test_the_version_is_printed_without_loading_torch():
    script = (
        "import sys; sys.argv = ['mambamatcher', '--version']; import mambamatcher.cli as cli\n"
        "try: cli.main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mambamatcher 0.")


def test_the_shipped_models_are_names_wherever_a_model_is_asked_for(run):
    for name in ("default", "lite"):
        code, out, error = run("info", "--model", name, "--json")
        assert code == 0, error
        assert json.loads(out)["config"] == json.loads((SHIPPED[name] / "config.json").read_text())["model"]
    code, _, error = run("info", "--model", "lit")
    assert code == 2
    assert "Did you mean 'lite'?" in error
    assert "lite" not in PRESETS


@pytest.mark.parametrize("threshold", ["0", "1"])
def test_the_threshold_decides_what_counts_as_found_and_every_point_keeps_place_and_score(
    run, pair, tmp_path, threshold
):
    out = tmp_path / "found.coco.json"
    (tmp_path / "p.json").write_text('{"points": [[10, 20], [30, 4]], "names": ["=1+1", "<b>\\n"]}')
    code, printed, _ = run(
        "match", *pair, "--points-file", tmp_path / "p.json", "--threshold", threshold, "--json", "--points-out", out
    )
    assert code == 0
    matches = json.loads(printed)["matches"]
    annotation = json.loads(out.read_text())["annotations"][0]
    assert [match["matched"] for match in matches] == [threshold == "0"] * 2
    assert annotation["keypoints"][2::3] == [2 if threshold == "0" else 1] * 2
    assert annotation["keypoints"][:2] == [round(value, 3) for value in matches[0]["target"]]
    assert annotation["keypoint_scores"] == [round(match["confidence"], 4) for match in matches]
    assert json.loads(out.read_text())["categories"][0]["keypoints"] == ["=1+1", "<b>\n"]


@pytest.mark.parametrize("threshold", ["-0.1", "1.5", "nan", "high"])
def test_a_threshold_is_a_probability(run, pair, threshold):
    code, _, error = run("match", *pair, "--points", "1,1", "--threshold", threshold)
    assert code == 2
    assert "threshold" in error
