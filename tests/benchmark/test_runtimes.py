"""Runtimes side by side: sizes of installed packages, ratios by hand, and one small measurement."""

from importlib.metadata import distribution

import pytest

from mambamatcher.benchmark import runtime_process
from mambamatcher.benchmark.install_size import dependencies, megabytes
from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.benchmark.runtimes import RuntimeBenchmark, RuntimeTimes, _best

TORCH = RuntimeTimes("lite", "torch", 1.0, 4.0, 0.8, 1.2, 0.3, 2.0, 600.0, 4.0)
ONNX = RuntimeTimes("lite", "onnx", 0.2, 1.0, 0.4, 0.6, 0.15, 5.0, 300.0, 0.8)


def test_dependencies_are_found_through_others():
    assert {"markdown-it-py", "mdurl", "pygments"} == dependencies("rich")
    assert "uc-micro-py" not in dependencies("markdown-it-py")  # of an extra that was not asked for
    assert dependencies("markdown-it-py", "linkify") is None  # which is not installed here


def test_size_is_that_of_the_files():
    place = distribution("einops").locate_file("einops")
    source = sum(path.stat().st_size for path in place.rglob("*.py")) / 1e6
    everything = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6
    assert source < megabytes({"einops"}) < everything + 0.1


def test_ratios_are_of_the_same_model():
    found = RuntimeBenchmark(circumstances(), None, {"base": 200.0, "torch": None}, [TORCH, ONNX])
    (ratio,) = found.ratios()
    assert ratio["encode_cpu_seconds"] == pytest.approx(0.5)
    assert ratio["propagate_images_per_second"] == pytest.approx(2.5)
    assert ratio["slowdown_when_busy"] == pytest.approx(2 / 5)
    assert "base 200 MB, torch not installed" in found.as_text()
    assert [row["slowdown_when_busy"] for row in found.as_dict()["times"]] == [5.0, 2.0]


def test_the_best_of_several_rounds_is_the_highest_throughput_and_the_shortest_time():
    slower = RuntimeTimes("lite", "onnx", 0.1, 2.0, 0.5, 0.7, 0.2, 4.0, 310.0, 0.7)
    assert _best([ONNX, slower]) == RuntimeTimes("lite", "onnx", 0.1, 1.0, 0.4, 0.6, 0.15, 5.0, 300.0, 0.7)


def test_a_runtime_is_measured(monkeypatch):
    monkeypatch.setattr(runtime_process, "PAIRS", 1)
    monkeypatch.setattr(runtime_process, "TARGETS", 2)
    found = runtime_process.measure("lite", "onnx")
    assert found["encode_cpu_seconds"] < found["pair_cpu_seconds"]
    assert all(value > 0 for value in found.values())
