import json

import pytest
from typer.testing import CliRunner

from mambamatcher.benchmark.contestants import OURS, REFINEMENT
from mambamatcher.benchmark.formatting import scan_markdown
from mambamatcher.benchmark.growth import Growth, benchmark_growth
from mambamatcher.benchmark.measurement import circumstances, measure
from mambamatcher.benchmark.scan import BOTH, FORWARD, ContestantTime, ScanBenchmark
from mambamatcher.cli.benchmark import app


def test_a_small_run_names_every_contestant_with_time_and_circumstances(monkeypatch, tmp_path):
    monkeypatch.setattr("mambamatcher.benchmark.scan.SHORT_TOKENS", 20)
    monkeypatch.setattr("mambamatcher.benchmark.scan.LOOP_TOKENS", 40)
    done = CliRunner().invoke(app, ["scan", "--grids", "3", "--repeats", "1", "--json", "--save", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "scan.json").read_text())
    assert {"date", "cpu", "commit", "threads"} <= found["circumstances"].keys()
    forward = {row["contestant"]: row for row in found["rows"] if row["what"] == FORWARD}
    assert {"ours", "chunked torch", "loop (unbind)", "transformers, slow path"} < forward.keys()
    assert {"ours, whole refinement", "FastFormer, 6 layers", "4D convolution, k = 3"} < forward.keys()
    assert all(row["seconds"] > 0 for row in forward.values())
    assert forward["ours"]["times_ours"] == pytest.approx(1)
    assert "## forward, 81 tokens" in (tmp_path / "scan.md").read_text()


def test_grids_that_are_not_numbers_are_refused():
    done = CliRunner().invoke(app, ["scan", "--grids", "17,thirty"])
    assert "thirty" in str(done.exception)


def test_a_contestant_that_did_not_run_says_why():
    slow = ContestantTime("slow one", BOTH, 16, skipped="would take about 900 s")
    page = scan_markdown(ScanBenchmark(circumstances(), [slow]))
    assert "| slow one | would take about 900 s |" in page


def test_measure_keeps_the_best_run(monkeypatch):
    wall, processor = iter([0.0, 5.0, 10.0, 11.0, 20.0, 22.0]), iter([0.0, 3.0, 10.0, 14.0, 20.0, 22.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(wall))
    monkeypatch.setattr("time.process_time", lambda: next(processor))
    found = measure(lambda: None, runs=3, warm_up=False)
    assert (found.seconds, found.cpu_seconds) == (1.0, 2.0)


def test_measure_sees_memory_that_is_freed_before_the_end():
    def touch() -> None:
        bytearray(64 << 20)

    found = measure(touch, runs=2)
    assert found.extra_mib is None or 60 < found.extra_mib < 70


def test_growth_is_the_median_of_the_turns_scaled_to_one_small_run():
    # sixteen small runs took 1.0, 2.0 and 4.0 s, one large run 1.0, 2.2 and 3.0 s: ratios 1, 1.1 and 0.75
    row = Growth("ours", 3, 6, [1.0, 2.0, 4.0], [1.0, 2.2, 3.0])
    assert row.times == pytest.approx(16.0)
    assert "6^4 takes 16.0 times as long as 3^4" in row.as_line()


def test_growth_measures_the_scan_and_the_refinement():
    rows = list(benchmark_growth(3, 4, turns=2))
    assert [row.contestant for row in rows] == [OURS, REFINEMENT]
    assert all(len(row.small_seconds) == len(row.large_seconds) == 2 for row in rows)
