"""The short form of `benchmarks/learning.py`: a few steps must already help on pairs that were not trained on."""

import pytest
import torch

from mambamatcher import presets
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.dataset import PairBatch, PairDataset, collate
from mambamatcher.model.config import override
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.training.metric import PCK
from mambamatcher.training.module import TrainingModule
from mambamatcher.training.recipe import Recipe

STEPS, BATCH = 40, 8


def batch(pairs: PairDataset, first: int, count: int) -> PairBatch:
    return collate([pairs[index] for index in range(first, first + count)])


def test_a_few_steps_on_rendered_pairs_lower_the_loss_on_unseen_ones(monkeypatch):
    torch.manual_seed(0)
    recipe = override(
        Recipe(model=presets.tiny()),
        [
            "model.side=112",
            "model.backbone.trainable_blocks=4",
            "model.transfer.temperature=20",
            "keypoint_weight=0",
            "cross_entropy_weight=1",
            "learning_rate=2e-3",
            "backbone_learning_rate=1e-3",
        ],
    )
    module = TrainingModule(recipe, MambaMatcher(recipe.model), PCK(1, ["dog"]))
    monkeypatch.setattr(module, "log", lambda *_, **__: None)
    training, unseen = (PairDataset(read_pairs("synthetic", split).pairs, 112) for split in ("trn", "val"))
    held_out = batch(unseen, 0, 32)
    optimiser = module.configure_optimizers()

    def loss_on_unseen() -> float:
        with torch.no_grad():
            return module.training_step(held_out, 0).item()

    before = loss_on_unseen()
    for step in range(STEPS):
        optimiser.zero_grad()
        module.training_step(batch(training, step * BATCH, BATCH), step).backward()
        optimiser.step()
    # a guess among 8 x 8 positions costs 4.16
    assert loss_on_unseen() < min(before, 4.16) - 0.15


@pytest.mark.parametrize("head", ["pointwise", "hough", "fastformer"])
@pytest.mark.parametrize("loss", ["keypoint_weight", "cross_entropy_weight"])
def test_a_head_that_upsamples_learns_a_batch_by_either_loss(head, loss, monkeypatch):
    torch.manual_seed(0)
    off = {"keypoint_weight", "cross_entropy_weight"} - {loss}
    changes = [f"model.correlation={head}", "model.correlation.upsample=2", f"{loss}=1", f"{off.pop()}=0"]
    recipe = override(Recipe(model=presets.tiny()), [*changes, "model.features=none", "learning_rate=1e-3"])
    module = TrainingModule(recipe, MambaMatcher(recipe.model), PCK(1, ["dog"]))
    monkeypatch.setattr(module, "log", lambda *_, **__: None)
    pairs = batch(PairDataset(read_pairs("synthetic", "trn").pairs, 84), 0, 4)
    optimiser = module.configure_optimizers()
    losses = []
    for step in range(6):
        optimiser.zero_grad()
        losses.append(module.training_step(pairs, step))
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < losses[0]


def test_frozen_features_are_computed_once_for_each_image_unless_images_are_augmented(monkeypatch):
    pairs = batch(PairDataset(read_pairs("synthetic", "trn").pairs, 84), 0, 2)
    counts, losses = {}, {}
    for augment in ("false", "true"):
        changes = ["start=a-model", "freeze_features=true", f"augment={augment}", "model.correlation=linear"]
        recipe = override(Recipe(model=presets.tiny()), changes)
        torch.manual_seed(0)
        module = TrainingModule(recipe, MambaMatcher(recipe.model), PCK(1, ["dog"]))
        monkeypatch.setattr(module, "log", lambda *_, **__: None)
        encode, images = module.model.encode, []

        def counted(given, encode=encode, images=images):
            images.extend(given)
            return encode(given)

        monkeypatch.setattr(module.model, "encode", counted)
        losses[augment] = [module.training_step(pairs, step).item() for step in range(2)]
        counts[augment] = len(images)
    assert counts == {"false": len(pairs.images), "true": 2 * len(pairs.images)}
    assert losses["false"] == pytest.approx(losses["true"], rel=1e-5)


def test_the_losses_have_a_temperature_of_their_own_where_the_model_has_one(monkeypatch):
    pairs = batch(PairDataset(read_pairs("synthetic", "trn").pairs, 84), 0, 2)

    def loss(*changes: str) -> float:
        changes = ("keypoint_weight=0", "cross_entropy_weight=1", *changes)
        recipe = override(Recipe(model=presets.tiny()), list(changes))
        torch.manual_seed(0)
        module = TrainingModule(recipe, MambaMatcher(recipe.model), PCK(1, ["dog"]))
        monkeypatch.setattr(module, "log", lambda *_, **__: None)
        return module.training_step(pairs, 0).item()

    own = loss("model.transfer.temperature=30", "model.transfer.training_temperature=5")
    assert own == loss("model.transfer.temperature=5") != loss("model.transfer.temperature=30")
