import math
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mambamatcher import presets
from mambamatcher.errors import ConfigError
from mambamatcher.model.backbones import EfficientNetLiteConfig
from mambamatcher.model.checkpoint import save_pretrained
from mambamatcher.model.config import override
from mambamatcher.model.geometry import grid_centres
from mambamatcher.model.losses import presence_loss, score_cross_entropy
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.transfer import soft_sampler
from mambamatcher.training.metric import PCK
from mambamatcher.training.module import TrainingModule
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.sampler import EpochSampler
from mambamatcher.training.start import begin_with, principal_projections


def draws(pairs, batch_size, batches, processes, rounds, seed=0):
    samplers = [
        EpochSampler(pairs, batch_size, batches, seed=seed, rank=rank, processes=processes) for rank in range(processes)
    ]
    steps = []
    for number in range(rounds):
        for sampler in samplers:
            sampler.set_epoch(number)
        steps += [sorted(chain.from_iterable(step)) for step in zip(*samplers, strict=True)]
    return steps


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))
def test_processes_together_see_the_same_pairs_whatever_their_number(pairs, batch_size, batches, rounds):
    assert draws(pairs, batch_size, batches, 2, rounds) == draws(pairs, 2 * batch_size, batches, 1, rounds)


def test_every_pair_is_seen_once_before_any_is_seen_again_and_each_round_differs():
    seen = list(chain.from_iterable(draws(12, 3, 2, 1, 6)))
    assert sorted(seen[:12]) == sorted(seen[12:24]) == list(range(12))
    assert draws(12, 3, 4, 1, 1) != draws(12, 3, 4, 1, 2)[4:]
    assert draws(12, 3, 4, 1, 1) != draws(12, 3, 4, 1, 1, seed=1)


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("steps=0", "steps must be at least 1"),
        ("steps=201", "multiple of round_steps"),
        ("learning_rate=-1", "learning_rate must be positive"),
        ("averaging=1.0", "between 0 and 1"),
        ("keypoint_weight=0", "both losses"),
        ("cache_gigabytes=1", "augment=false"),
        ("layer_decay=0", "layer_decay"),
        ("weight_decay=-0.1", "weight_decay"),
        ("sides=[224, 0]", "sides must be positive"),
        ("leraning_rate=1e-4", "Did you mean 'learning_rate'"),
        ("model.featurs.kernel_size=5", "Did you mean 'model.features'"),
        ("augmentation.crop=2.0", "probability"),
    ],
)
def test_impossible_recipes_are_refused(assignment, says):
    with pytest.raises(ConfigError, match=says):
        override(Recipe(model=presets.tiny()), [assignment])


def test_a_batch_that_does_not_divide_is_refused_and_one_that_does_is_accumulated():
    recipe = Recipe(effective_batch=80, batch_size=10)
    assert recipe.accumulation(1) == 8
    assert recipe.accumulation(8) == 1
    with pytest.raises(ConfigError, match="multiple of 30"):
        recipe.accumulation(3)


def test_the_default_is_the_papers_recipe():
    recipe = Recipe()
    assert (recipe.learning_rate, recipe.effective_batch, recipe.schedule) == (1e-3, 80, "constant")
    assert recipe.model == presets.paper()
    assert recipe.augment
    assert recipe.cross_entropy_weight == 0


def test_learning_rates_rise_then_follow_half_a_cosine_and_the_backbone_has_its_own():
    recipe = override(
        Recipe(model=presets.tiny()),
        ["steps=200", "schedule=cosine", "warmup_steps=10", "model.backbone.trainable_blocks=1"],
    )
    module = TrainingModule(recipe, MambaMatcher(recipe.model), PCK(1, ["dog"]))
    configured = module.configure_optimizers()
    rates = [group["initial_lr"] for group in configured["optimizer"].param_groups]
    assert rates == [1e-3, 1e-5]
    share = configured["lr_scheduler"]["scheduler"].lr_lambdas[0]
    assert share(0) == pytest.approx(0.1)
    assert share(9) == share(10) == pytest.approx(1.0)
    assert share(105) == pytest.approx(0.5)
    assert share(200) == pytest.approx(0.0)
    trained = {id(p) for group in configured["optimizer"].param_groups for p in group["params"]}
    assert trained == {id(p) for p in module.model.parameters() if p.requires_grad}


def test_every_tuned_block_has_a_rate_that_falls_with_its_distance_from_the_last():
    changes = ["layer_decay=0.5", "backbone_learning_rate=0.08", "weight_decay=0.1"]
    recipe = override(Recipe(model=presets.tiny()), [*changes, "model.backbone.trainable_blocks=5"])
    module = TrainingModule(recipe, MambaMatcher(recipe.model), PCK(1, ["dog"]))
    optimiser = module.configure_optimizers()
    assert all(group["weight_decay"] == 0.1 for group in optimiser.param_groups)
    rates = {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
    backbone = module.model.backbone
    for block, rate in zip(backbone.blocks(), (0.01, 0.02, 0.04, 0.08), strict=True):
        assert {rates[id(p)] for p in block.parameters()} == {rate}
    assert {rates[id(p)] for p in backbone.stem()} == {0.005}
    assert {rates[id(p)] for p in module.model.features.parameters()} == {1e-3}


def test_cross_entropy_equals_a_hand_calculation():
    # a point on the second of three target positions
    scores = torch.tensor([0.2, 0.5, -0.1]).view(1, 1, 1, 3)
    target = grid_centres((1, 3))[1].view(1, 1, 2)
    loss = score_cross_entropy(scores, target, torch.tensor([[True]]), temperature=2.0)
    # radius: 1.05 half diagonals of a 1x3 grid, so the neighbours two thirds away share in the truth
    radius = 1.05 * math.hypot(1, 1 / 3)
    near = np.maximum(0, radius - np.array([2 / 3, 0, 2 / 3]))
    truth = near / near.sum()
    logits = 2.0 * np.array([0.2, 0.5, -0.1])
    assert loss.item() == pytest.approx(-(truth * (logits - np.log(np.exp(logits).sum()))).sum(), rel=1e-5)


def test_no_counterpart_is_one_more_class_of_score_zero():
    scores = torch.tensor([[0.2, 0.5, -0.1], [0.3, -0.4, 0.0], [9.0, 9.0, 9.0]]).view(1, 3, 1, 3)
    present, absent = torch.tensor([[True, False, False]]), torch.tensor([[False, True, False]])
    found = presence_loss(scores, present, absent, temperature=2.0)
    shown, hidden = (np.exp(2.0 * np.array(row)).sum() for row in ([0.2, 0.5, -0.1], [0.3, -0.4, 0.0]))
    expected = -np.log(shown / (1 + shown)) / 2 - np.log(1 / (1 + hidden)) / 2  # the third point does not count
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_the_loss_of_presence_pushes_scores_of_absent_points_down_and_of_present_ones_up():
    scores = torch.rand(1, 2, 4, 4, requires_grad=True)
    presence_loss(scores, torch.tensor([[True, False]]), torch.tensor([[False, True]]), temperature=20.0).backward()
    assert scores.grad is not None
    assert scores.grad[0, 0].sum() < 0 < scores.grad[0, 1].sum()


def test_cross_entropy_ignores_absent_keypoints_and_pulls_scores_to_the_truth():
    scores = torch.zeros(1, 2, 4, 4, requires_grad=True)
    target, absent = grid_centres((4, 4))[6].view(1, 1, 2), torch.full((1, 1, 2), torch.nan)
    loss = score_cross_entropy(scores, torch.cat([target, absent], 1), torch.tensor([[True, False]]), temperature=1.0)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad[0, 0].flatten().argmin() == 6
    assert (scores.grad[0, 1] == 0).all()


@pytest.mark.parametrize("kind", ["linear", "mean", "similarity_scan"])
def test_scores_at_points_are_those_of_the_whole_refined_map(kind):
    model = MambaMatcher(override(presets.tiny(), [f"correlation.kind={kind}"]))
    with torch.no_grad():
        for parameter in model.correlation.parameters():
            parameter.normal_()
    encoded = model.encode(torch.rand(3, 3, 84, 84))
    source, target = torch.tensor([0, 2, 2]), torch.tensor([1, 1, 0])
    weights = soft_sampler(torch.rand(3, 5, 2) * 2 - 1, (6, 6), 0.3)
    whole = model.correlate(encoded[source], encoded[target])
    expected = torch.einsum("bkp,bpij->bkij", weights, whole.flatten(1, 2))
    assert_close(model.correlate_at(encoded, source, target, weights), expected, rtol=1e-4, atol=1e-5)


def test_projections_begin_as_principal_components():
    backbone = EfficientNetLiteConfig(layers=(9, 15), weights="random", width=8).build().eval()
    images = list(torch.rand(6, 3, 64, 64))
    principal_projections(backbone, images)
    raw = torch.cat([backbone.raw_levels(image[None])[1][0].flatten(1).T for image in images]).numpy()
    projected = torch.cat(
        [backbone.projections[1](backbone.raw_levels(image[None])[1])[0].flatten(1).T for image in images]
    )
    variances = np.linalg.svd(raw - raw.mean(0), compute_uv=False)[:8] ** 2
    assert_close(projected.mean(0), torch.zeros(8), atol=1e-4, rtol=0)
    assert_close(projected.detach().square().sum(0), torch.from_numpy(variances).float(), rtol=1e-3, atol=1e-4)


def test_a_scan_put_into_a_trained_linear_model_changes_nothing_at_first(tmp_path):
    linear = MambaMatcher(override(presets.tiny(), ["correlation.kind=linear"])).eval()
    with torch.no_grad():
        linear.correlation.project.weight.normal_()
    save_pretrained(linear, tmp_path)
    scanning = MambaMatcher(override(presets.tiny(), ["correlation.identity_start=true"])).eval()
    begin_with(scanning, tmp_path)
    images = torch.rand(2, 3, 84, 84)
    points = torch.rand(1, 4, 2)
    assert_close(scanning(images[:1], images[1:], points), linear(images[:1], images[1:], points), rtol=1e-4, atol=1e-5)


def test_a_model_of_another_backbone_is_no_beginning(tmp_path):
    save_pretrained(MambaMatcher(override(presets.tiny(), ["features.hidden_ratio=2"])), tmp_path)
    with pytest.raises(ConfigError, match="cannot start from"):
        begin_with(MambaMatcher(presets.tiny()), tmp_path)
