import json
from dataclasses import replace
from fcntl import LOCK_EX, flock

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.model.checkpoint import load_pretrained, save_pretrained
from mambamatcher.model.config import override
from mambamatcher.model.correlation.similarity_scan import without_state
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.presets import tiny
from mambamatcher.model.saved import SHIPPED
from mambamatcher.paper import ablations, trained_rows
from mambamatcher.paper.ablations import Ablation, finished, train_rows
from mambamatcher.paper.comparison import difference_line, outcome_rows, pair_shares
from mambamatcher.paper.initialisation import initialise_as_weighted_sum, write_initial_model
from mambamatcher.paper.trained_rows import (
    CORRELATION,
    FEATURES,
    LEAGUE,
    ONE_LEVEL,
    POSITIONAL,
    SORT_KEY,
    Base,
    TrainedRow,
    base_of,
)
from mambamatcher.training.recipe import Recipe

LINEAR = TrainedRow(key="linear", paper="4D Conv k=1", changes=("model.correlation=linear",), seeds=2)
MADE = {"base": "tiny", "steps": 2, "limit": 3}


@pytest.fixture
def ablation(tmp_path):
    base = Base(
        name="tiny",
        recipe=Recipe(model=tiny(), effective_batch=2, batch_size=2, workers=0, augment=False, cache_gigabytes=0.1),
        training=("synthetic", "trn"),
        evaluations=(("synthetic", "val"),),
    )
    return Ablation(base=base, steps=2, results=tmp_path / "results", runs=tmp_path / "runs", limit=3)


@pytest.fixture
def trained(monkeypatch):
    """Record which rows would be trained, and train none."""
    rows = []

    def note(row, seed, *_):
        rows.append((row.key, seed))
        return MADE

    monkeypatch.setattr(ablations, "_train_and_evaluate", note)
    return rows


def test_a_row_is_trained_evaluated_and_kept_and_all_rows_share_their_features(ablation, monkeypatch):
    monkeypatch.setattr(ablations, "VALIDATION_PAIRS", 2)
    once = replace(LINEAR, seeds=1)
    train_rows([once], ablation)
    assert [path.name for path in ablation.results.iterdir()] == ["linear-seed0.json"]
    outcomes = finished(once, ablation)
    assert outcomes[0]["evaluations"]["synthetic val"]["pairs"] == 3
    line = outcome_rows(once, outcomes)[0]
    assert line.cells[1].low <= line.cells[1].value <= line.cells[1].high
    assert "2 steps" in line.protocol
    assert len(list((ablation.runs / "features").glob("*.safetensors"))) > 4


def test_finished_rows_are_skipped_and_show_without_the_others(ablation, trained):
    train_rows([LINEAR], ablation)
    (ablation.results / "linear-seed1.json").unlink()
    assert finished(LINEAR, ablation) == [MADE]
    train_rows([LINEAR], ablation)
    assert trained == [("linear", 0), ("linear", 1), ("linear", 1)]


def test_a_row_that_another_process_is_training_is_left_to_it(ablation, trained, monkeypatch):
    other = ablation.runs / "linear-seed0"
    other.mkdir(parents=True)
    waited = []

    def claim(path, wait):
        if wait:  # the other has finished by then
            waited.append(path.parent.name)
            (ablation.results / "linear-seed0.json").write_text(json.dumps(MADE))
            holder.close()
        return own_claim(path, wait)

    own_claim = ablations._claim
    monkeypatch.setattr(ablations, "_claim", claim)
    with (other / "lock").open("w") as holder:
        flock(holder, LOCK_EX)
        train_rows([LINEAR], ablation)
    assert trained == [("linear", 1)]
    assert waited == ["linear-seed0"]


def test_rows_of_another_budget_are_not_mixed(ablation, trained):
    train_rows([LINEAR], ablation)
    with pytest.raises(InputError, match="was made with steps 2, not 4"):
        finished(LINEAR, replace(ablation, steps=4))


@pytest.mark.parametrize("row", [*CORRELATION, *SORT_KEY, *POSITIONAL], ids=lambda row: row.key)
def test_every_correlation_row_is_initialised_to_the_same_weighted_sum(row):
    base = base_of("embedded")
    levels, project = 5, nn.Linear(5, 1)
    aggregation = base.configured(row, 0, 1).model.correlation.build(levels)
    initialise_as_weighted_sum(aggregation, project)
    correlation = torch.rand(2, levels, 2, 3, 4, 5) * 2 - 1
    seen = correlation.relu() if row.key == "correlation-fastformer" else correlation  # TransforMatcher clips
    expected = project(seen.movedim(1, -1)).squeeze(-1)
    with torch.no_grad():
        assert_close(aggregation(correlation), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("row", LEAGUE, ids=lambda row: row.key)
def test_every_head_of_the_league_trains_on_the_levels_of_the_base(row, tmp_path):
    """A small backbone stands for the base's; heads of other systems keep the weights that they start with."""
    base = base_of("vit-s")
    narrow = ("model.backbone.name=dinov2-tiny", "model.backbone.weights=random", "model.side=56")
    three = "model.backbone.layers=[1, 2, 3]"
    own = "model.backbone.layers=[3]" if set(ONE_LEVEL) <= set(row.changes) else three
    small = replace(row, changes=(*row.changes, *narrow, own))
    start = base.configured(replace(LINEAR, changes=(*LINEAR.changes, *narrow, three)), 0, 1)
    save_pretrained(MambaMatcher(start.model), tmp_path / "start")
    config = base.configured(small, 0, 1).model
    write_initial_model(
        config, tmp_path / "row", 0, tmp_path / "start", new_features=row.new_features, own_start=row.own_start
    )
    model = load_pretrained(tmp_path / "row")
    images, points = torch.rand(2, 1, 3, 56, 56), torch.zeros(1, 2, 2)
    model.train()(*images, points).sum().backward()
    gradients = [parameter.grad for parameter in model.correlation.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_a_scan_of_the_vit_base_starts_near_the_weighted_sum_and_its_state_already_moves_it():
    """A scan that starts at zero hardly moves in a short training, so that its order cannot matter."""
    torch.manual_seed(0)
    levels, project = 16, nn.Linear(16, 1)
    aggregation = base_of("vit-s").configured(trained_rows.DESCENDING, 0, 1).model.correlation.build(levels)
    initialise_as_weighted_sum(aggregation, project)
    correlation = torch.rand(1, 1, 5, 6, 7, 8) + 0.2 * torch.rand(
        1, levels, 5, 6, 7, 8
    )  # levels agree, as real ones do
    expected = project(correlation.movedim(1, -1)).squeeze(-1)
    with torch.no_grad():
        moved = (aggregation(correlation) - expected).std() / expected.std()
        by_state = (aggregation(correlation) - without_state(aggregation)(correlation)).std() / expected.std()
    assert 0.001 < moved < 0.5
    assert by_state > 0.0001


def test_rows_of_a_base_with_levels_train_their_head_on_features_trained_once(ablation, monkeypatch):
    monkeypatch.setattr(ablations, "VALIDATION_PAIRS", 2)
    monkeypatch.setattr("mambamatcher.paper.initialisation.PAIRS", 8)
    folder = ablation.runs.parent / "shipped"
    torch.manual_seed(0)
    save_pretrained(MambaMatcher(tiny()), folder)
    monkeypatch.setitem(SHIPPED, "tiny", folder)
    projected = override(ablation.base.recipe, ["model.backbone.width=8", "model.correlation=linear"])
    base = replace(ablation.base, recipe=projected, shipped="tiny", levels=replace(projected, steps=1, round_steps=1))
    scan = TrainedRow(key="scan", paper="scan", changes=(trained_rows.SCANS, "correlation_learning_rate=0.01"))
    train_rows([scan], replace(ablation, base=base))
    (outcome,) = finished(scan, replace(ablation, base=base))
    levels, row = (load_pretrained(ablation.runs / each / "model") for each in ("levels", "scan-seed0"))
    for part in ("backbone", "features"):
        expected, found = (dict(getattr(model, part).state_dict()) for model in (levels, row))
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], expected[key]) for key in found), part
    network = load_pretrained(folder).backbone.network.state_dict()
    assert all(torch.equal(levels.backbone.network.state_dict()[key], network[key]) for key in network)
    assert outcome["state_logits"] > 0
    initial = load_pretrained(ablation.runs / "scan-seed0" / "initial").correlation.state_dict()
    assert not any(torch.equal(value, initial[key]) for key, value in row.correlation.state_dict().items())


@pytest.mark.parametrize("base", ["embedded", "vit-s", "paper"])
def test_every_row_is_a_recipe_with_a_frozen_backbone_and_one_validation(base):
    for row in (*CORRELATION, *FEATURES, *SORT_KEY, *POSITIONAL, *(trained_rows.SCAN if base == "vit-s" else ())):
        recipe = base_of(base).configured(row, 1, 240)
        assert recipe.model.backbone.trainable_blocks == 0
        assert (recipe.seed, recipe.steps, recipe.round_steps) == (1, 240, 240)


def test_the_paper_base_has_the_papers_block_and_the_embedded_one_a_small_block():
    row = trained_rows.DESCENDING
    sizes = {name: base_of(name).configured(row, 0, 1).model.correlation.mamba.expand for name in trained_rows.BASES}
    assert sizes == {"embedded": 2, "vit-s": 3, "paper": 3}


def test_an_unknown_base_is_refused():
    with pytest.raises(ConfigError, match="unknown base"):
        base_of("papr")


def test_a_difference_has_a_sign_an_interval_and_a_probability_and_is_shown_by_seed():
    def outcome(right):
        return {"evaluations": {"here": {"right": [right] * 40, "keypoints": [4] * 40}}}

    first, second = [outcome([1, 2, 3]), outcome([1, 3, 3])], [outcome([1, 3, 3]), outcome([1, 3, 3])]
    assert np.allclose(pair_shares(first, "here")[0], [0.25, 0.625, 0.75])
    line = difference_line(("a", first), ("b", second), "here")
    assert "here: b against a: +12.50 points" in line
    assert "p = 0.0005; by seed +25.00, +0.00" in line
