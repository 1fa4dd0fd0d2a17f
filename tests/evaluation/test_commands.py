"""`mambamatcher evaluate` and `mambamatcher compare` from end to end."""

import json

import pytest
import typer
from typer.testing import CliRunner

from mambamatcher.cli.compare import compare
from mambamatcher.cli.evaluate import evaluate
from mambamatcher.errors import InputError
from tests.evaluation.conftest import Offset


@pytest.fixture
def run(root, monkeypatch):
    """Run a command on the small benchmark."""
    monkeypatch.setenv("MAMBAMATCHER_DATA", str(root))
    app = typer.Typer()
    app.command("evaluate")(evaluate)
    app.command("compare")(compare)

    def invoke(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def write(path, pairs, offset):
    lines = [{"pair": pair.name, "predicted": (pair.points()[1] + offset).tolist()} for pair in pairs]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.filterwarnings("ignore::mambamatcher.matching.matcher.UntrainedWarning")
def test_model_is_evaluated_and_everything_is_written(run, tmp_path):
    out = tmp_path / "out"
    result = run(
        "evaluate", "tiny", "--dataset", "spair", "--split", "test", "--out", out, "--limit", 2, "--alpha", 0.1
    )
    assert "tiny on spair test: 2 pairs" in result.stdout
    assert {path.name for path in out.iterdir()} == {"predictions.jsonl", "report.json", "report.md", "worst.html"}
    report = json.loads((out / "report.json").read_text())
    assert report["configuration"]["side"] == 84
    assert len(report["configuration"]["weights_hash"]) == 16


def test_predictions_of_others_are_evaluated_and_compared(run, pairs, tmp_path):
    for name, offset in (("good", 1.0), ("bad", 30.0)):
        path = write(tmp_path / f"{name}.jsonl", pairs, offset)
        result = run("evaluate", path, "--dataset", "spair", "--out", tmp_path / name, "--json")
        assert json.loads(result.stdout)["pairs"] == 5
    reports = [tmp_path / name / "report.json" for name in ("bad", "good")]
    assert "bad against good" in run("compare", *reports).output
    found = json.loads(run("compare", *reports, "--json").stdout)
    assert next(row for row in found["comparisons"] if row["alpha"] == 0.1)["second"] == 1.0
    assert "On cat" in found["comparisons"][1]["words"]
    same = json.loads(run("compare", reports[0], reports[0], "--json").stdout)
    assert same["first"].startswith("bad (")


def test_progress_is_plain_lines_on_standard_error_where_there_is_no_terminal(root, tmp_path, capsys):
    from mambamatcher.evaluation.evaluate import Request
    from mambamatcher.evaluation.evaluate import evaluate as run_evaluation

    run_evaluation(Offset(), Request(dataset="spair", split="test", root=root, output=tmp_path / "out"))
    captured = capsys.readouterr()
    assert captured.err == "spair test: 5 of 5\n"
    assert captured.out == ""


def test_missing_predictions_are_named(run, tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl"):
        run("evaluate", tmp_path / "none.jsonl", "--dataset", "spair", "--out", tmp_path / "out")
