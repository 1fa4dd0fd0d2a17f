import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from mambamatcher import cli


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command as the shell would: (exit code, output, error output)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mambamatcher", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def pair(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a.png", "b.png"):
        Image.fromarray(rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(tmp_path / name)
    return tmp_path / "a.png", tmp_path / "b.png"


def test_match_prints_json_and_writes_a_picture(run, pair, tmp_path):
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
    ("arguments", "says"),
    [
        (["--points", "10"], "a point is written x,y"),
        (["--points", "10,999"], "outside the source image"),
        (["--points", "1,1", "--heatmap", "taken.png"], "exists already"),
        (["--points", "1,1", "--model", "nearst"], "Did you mean 'nearest'"),
        (["--points-file", "gone.json"], "cannot read points"),
        (["--points-file", "bad.json"], "must be JSON"),
        (["--points", "1,1", "--out", "taken.png"], "exists already"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, pair, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"dots": 3}')
    (tmp_path / "taken.png").write_bytes(b"mine")
    code, out, err = run("match", *pair, *arguments)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert "Traceback" not in err + out
    assert (tmp_path / "taken.png").read_bytes() == b"mine"


def test_a_missing_picture_is_refused_before_a_model_is_loaded(run, pair):
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


def test_info_of_another_configuration_quotes_nothing_that_is_not_the_papers(run):
    code, out, _ = run("info", "--preset", "tiny", "features.kernel_size=5", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["config"]["features"]["kernel_size"] == 5
    assert not any(stage["paper_parameters"] for stage in report["stages"])


@pytest.mark.parametrize("arguments", [["--preset", "papr"], ["features.kernel_sise=3"], ["backbone.facets=[]"]])
def test_info_refuses_what_it_does_not_know(run, arguments):
    code, _, err = run("info", *arguments)
    assert code == 2
    assert err.startswith("mambamatcher: ")


def test_every_verb_has_help_with_an_example(run):
    for verb in ("match", "propagate", "warp", "swap", "calibrate", "info"):
        code, out, _ = run(verb, "--help")
        assert code == 0
        assert "Example: mambamatcher" in " ".join(out.split())


def test_help_and_version_answer_without_loading_torch():
    script = (
        "import sys; sys.argv = ['mambamatcher', '--version']; import mambamatcher.cli as cli\n"
        "try: cli.main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mambamatcher 0.")
