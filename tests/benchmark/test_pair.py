import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from mambamatcher import MambaMatcher, presets
from mambamatcher.benchmark.cold_start import FirstPair, measure_first_pair
from mambamatcher.benchmark.formatting import pair_markdown, plot_pair
from mambamatcher.benchmark.match_many import benchmark_gallery
from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.benchmark.pair_stages import (
    WHOLE,
    PairBenchmark,
    benchmark_pair,
    load_straightforward,
    operations,
    random_model,
)
from mambamatcher.errors import InputError
from mambamatcher.model.backbones import EfficientNetLiteConfig
from mambamatcher.model.checkpoint import save_pretrained
from mambamatcher.model.correlation import correlation_map
from mambamatcher.model.transfer import transfer_points

STRAIGHTFORWARD = Path(__file__).parents[2] / "benchmarks" / "straightforward.py"


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return random_model("tiny")


@pytest.fixture(scope="module")
def plain():
    return load_straightforward(STRAIGHTFORWARD)


def test_the_straightforward_version_computes_the_same(model, plain):
    images, points = torch.rand(2, 3, 84, 84), torch.rand(1, 5, 2) * 2 - 1
    with torch.inference_mode():
        features = plain.extract(model, images)
        aggregated = plain.aggregate(model, features)
        assert_close(aggregated, model.features.per_image(features))
        assert_close(plain.aggregate_channels_last(model, features), aggregated.flatten(0, 1))
        source, target = aggregated.split(1)
        correlation = correlation_map(source, target)
        assert_close(plain.correlate(model, source, target), correlation.flatten(4).flatten(2, 3))
        refined = model.correlation(correlation)
        assert_close(plain.refine(model, correlation), refined, rtol=1e-4, atol=1e-5)
        assert_close(plain.transfer(model, refined, points), transfer_points(refined, points, model.config.transfer))


def test_every_stage_is_measured_and_can_be_reported(model, plain, tmp_path):
    measured = list(benchmark_pair(model, (84,), 1, plain))
    rows = [row for _, row in measured]
    assert [row.stage for row in rows] == [
        "backbone",
        "features",
        "correlation map",
        "refinement",
        "transfer",
        WHOLE,
    ]
    assert all(row.plain_seconds > 0 for row in rows)
    assert rows[-1].plain_seconds == pytest.approx(sum(row.plain_seconds for row in rows[:-1]))
    processes = [FirstPair(84, True, 0.1, 1.0, 2.0, 3.0, 4.0, 9.5, 500.0)]
    report = PairBenchmark(circumstances(), "tiny", measured[0][0], rows, processes)
    assert json.loads(json.dumps(report.as_dict()))["rows"][1]["plain_channels_last_seconds"] > 0
    assert report.as_dict()["processes"][0]["cold_start_seconds"] == pytest.approx(9.1)  # without importing torch
    text = pair_markdown(report)
    assert "| 84 | yes | 1.00 | 0.10 | 2.00 | 3.00 | 4.00 | 9.10 | 9.50 | 500 |" in text
    assert text.count("\n| 84 |") == len(rows) + 1
    plot_pair(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000
    assert "whole pair" in rows[-1].as_line()


def test_a_first_pair_is_measured_from_the_start_of_its_process(tmp_path):
    config = replace(presets.nearest(), side=64, backbone=EfficientNetLiteConfig(layers=(9,), weights="random"))
    save_pretrained(MambaMatcher(config), tmp_path / "model")
    started = time.time()
    process = measure_first_pair(tmp_path / "model", 64, low_memory=False)
    outside = time.time() - started
    parts = (process.start_seconds, process.import_seconds, process.load_seconds, process.first_pair_seconds)
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(process.cold_start_seconds)
    assert process.cold_start_seconds + process.import_torch_seconds < outside
    assert process.cpu_seconds > 0


def test_the_papers_pair_needs_875_gflop_once_convolutions_are_winograds():
    assert operations(presets.paper())[WHOLE] == pytest.approx(875e9, rel=0.02)


def test_a_gallery_describes_each_image_once_and_compares_each_pair_once(model):
    report = benchmark_gallery(model, "tiny", 3)
    assert report.passes == {"encode": 4, "correlate": 3}
    assert report.overhead > 0
    assert report.as_dict()["overhead"] == report.overhead
    assert "1 source x 3 targets" in report.as_text()
    assert "encode" not in vars(model)  # it is the class's own again


def test_a_missing_straightforward_version_is_named():
    with pytest.raises(InputError, match=r"nowhere\.py"):
        load_straightforward(Path("nowhere.py"))
