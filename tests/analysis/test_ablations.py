import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mambamatcher.analysis import ablations, trained_rows
from mambamatcher.analysis.ablations import Ablation, difference_line, outcome_rows, pair_shares, run_rows
from mambamatcher.analysis.beginnings import begin_as_weighted_sum
from mambamatcher.analysis.trained_rows import CORRELATION, FEATURES, Base, TrainedRow, base_of
from mambamatcher.errors import ConfigError, InputError
from mambamatcher.presets import tiny
from mambamatcher.training.recipe import Recipe

LINEAR = TrainedRow(key="linear", paper="4D Conv k=1", changes=("model.correlation=linear",), seeds=2)


@pytest.fixture
def ablation(tmp_path):
    base = Base(
        name="tiny",
        recipe=Recipe(model=tiny(), effective_batch=2, batch_size=2, workers=0, augment=False),
        training=("synthetic", "trn"),
        evaluations=(("synthetic", "val"),),
        embedded=False,
    )
    return Ablation(base=base, steps=2, results=tmp_path / "results", runs=tmp_path / "runs", limit=3)


def test_rows_are_trained_evaluated_and_kept_and_finished_ones_are_skipped(ablation, monkeypatch):
    outcomes = run_rows([LINEAR], ablation)
    kept = sorted(path.name for path in ablation.results.iterdir())
    assert kept == ["linear-seed0.json", "linear-seed1.json"]
    assert outcomes[0][0]["evaluations"]["synthetic val"]["pairs"] == 3
    lines = outcome_rows(LINEAR, outcomes[0])
    assert lines[0].cells[1].low <= lines[0].cells[1].value <= lines[0].cells[1].high
    assert "2 steps, seeds" in lines[0].protocol

    (ablation.results / "linear-seed1.json").unlink()
    trained = []

    def note(row, seed, _):
        trained.append((row.key, seed))
        return outcomes[0][1]

    monkeypatch.setattr(ablations, "_train_and_evaluate", note)
    assert run_rows([LINEAR], ablation) == json.loads(json.dumps(outcomes))
    assert trained == [("linear", 1)]


def test_rows_of_another_budget_are_not_mixed(ablation, monkeypatch):
    made = {"base": "tiny", "steps": 2, "limit": 3}
    monkeypatch.setattr(ablations, "_train_and_evaluate", lambda *_: made)
    run_rows([LINEAR], ablation)
    with pytest.raises(InputError, match="was made with steps 2, not 4"):
        run_rows([LINEAR], replace(ablation, steps=4))


@pytest.mark.parametrize("row", CORRELATION, ids=lambda row: row.key)
def test_every_correlation_row_begins_as_the_same_weighted_sum(row):
    base = base_of("embedded")
    levels, project = 5, nn.Linear(5, 1)
    aggregation = base.configured(row, 0, 1).model.correlation.build(levels)
    begin_as_weighted_sum(aggregation, project)
    correlation = torch.rand(2, levels, 2, 3, 4, 5)
    expected = project(correlation.movedim(1, -1)).squeeze(-1)
    with torch.no_grad():
        assert_close(aggregation(correlation), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("base", ["embedded", "paper"])
def test_every_row_is_a_recipe_with_a_frozen_backbone_and_one_round(base):
    for row in (*CORRELATION, *FEATURES, *trained_rows.SORT_KEY, *trained_rows.POSITIONAL):
        recipe = base_of(base).configured(row, 1, 240)
        assert recipe.model.backbone.trainable_blocks == 0
        assert (recipe.seed, recipe.steps, recipe.round_steps) == (1, 240, 240)


def test_the_paper_base_has_the_papers_block_and_the_embedded_one_a_small_block():
    row = trained_rows.DESCENDING
    sizes = {name: base_of(name).configured(row, 0, 1).model.correlation.mamba.expand for name in trained_rows.BASES}
    assert sizes == {"embedded": 2, "paper": 3}


def test_an_unknown_base_is_refused():
    with pytest.raises(ConfigError, match="unknown base"):
        base_of("papr")


def test_a_difference_has_a_sign_an_interval_and_a_probability():
    right = {"a": [[1, 2, 3]] * 40, "b": [[1, 3, 3]] * 40}
    shares = {
        name: pair_shares([{"evaluations": {"here": {"right": each, "keypoints": [4] * 40}}}], "here")
        for name, each in right.items()
    }
    assert np.allclose(shares["a"][0], [0.25, 0.5, 0.75])
    line = difference_line(("a", shares["a"]), ("b", shares["b"]), "here")
    assert "+25.00 points" in line
    assert "p = 0.0005" in line
