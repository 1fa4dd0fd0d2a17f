"""SCorrSAN's pseudo-labels: which positions are labelled, which labels are kept, and how the teacher follows."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mambamatcher import presets
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.dataset import PairDataset, collate
from mambamatcher.errors import ConfigError
from mambamatcher.model.config import override
from mambamatcher.model.losses import pseudo_label_loss
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.transfer import dense_transfer
from mambamatcher.model.transfer_settings import SOFT_ARGMAX
from mambamatcher.training.metric import PCK
from mambamatcher.training.module import TrainingModule
from mambamatcher.training.recipe import PseudoLabels, Recipe
from mambamatcher.training.start import model_weights
from mambamatcher.training.teacher import near_points

GRIDS = (2, 3, 4, 5)


def maps(seed: int) -> torch.Tensor:
    return torch.rand(2, *GRIDS, generator=torch.Generator().manual_seed(seed)) / 10


@pytest.mark.parametrize("keep", [0.01, 0.5, 1.0])
def test_the_loss_is_the_mean_of_the_smallest_distances_between_the_matches_of_both_maps(keep):
    near = torch.tensor([[True, False, True, True, False, True], [True, True, True, True, True, False]])
    student, label = maps(0), maps(1)
    distances = []
    for b, position in np.argwhere(near.numpy()):
        a, c = (dense_transfer(each, SOFT_ARGMAX)[b, position].numpy() for each in (student, label))
        distances.append(np.hypot(*(a - c)))
    expected = np.mean(sorted(distances)[: max(1, int(keep * len(distances)))])
    loss = pseudo_label_loss(student, label, near, SOFT_ARGMAX, keep)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_only_the_model_in_training_gets_a_gradient_and_equal_maps_get_none():
    student, label = maps(0).requires_grad_(), maps(1).requires_grad_()
    near = torch.ones(2, 6, dtype=torch.bool)
    pseudo_label_loss(student, label, near, SOFT_ARGMAX, 1.0).backward()
    assert student.grad.abs().sum() > 0
    assert label.grad is None
    same = maps(0).requires_grad_()
    pseudo_label_loss(same, maps(0), near, SOFT_ARGMAX, 1.0).backward()
    assert (same.grad == 0).all()


def test_without_positions_the_loss_is_zero_and_can_be_differentiated():
    student = maps(0).requires_grad_()
    loss = pseudo_label_loss(student, maps(1), torch.zeros(2, 6, dtype=torch.bool), SOFT_ARGMAX, 0.5)
    loss.backward()
    assert loss.item() == 0


def test_positions_near_a_present_point_are_labelled():
    points = torch.tensor([[[-0.75, -0.75], [0.75, 0.75]], [[0.0, 0.0], [torch.nan, torch.nan]]])
    present = torch.tensor([[True, False], [True, False]])
    near = near_points(points, present, (4, 4), reach=0.5).reshape(2, 4, 4)
    corner = torch.zeros(4, 4, dtype=torch.bool)
    corner[:2, :2] = True
    centre = torch.zeros(4, 4, dtype=torch.bool)
    centre[1:3, 1:3] = True
    assert torch.equal(near, torch.stack([corner, centre]))
    assert near_points(points, present, (4, 4), reach=1e-3).any(dim=1).all()  # never less than the cell of the point


def test_the_share_of_labels_rises_to_its_last_value():
    settings = PseudoLabels(weight=1.0, start=100, ramp=50, first_share=0.2, last_share=0.9)
    assert [settings.share(step) for step in (100, 125, 150, 900)] == pytest.approx([0.2, 0.55, 0.9, 0.9])
    assert PseudoLabels(ramp=0).share(0) == pytest.approx(0.9)


def module_with(*changes: str) -> TrainingModule:
    torch.manual_seed(0)
    recipe = override(Recipe(model=presets.tiny()), ["augment=false", *changes])
    module = TrainingModule(recipe, MambaMatcher(recipe.model), PCK(1, ["dog"]))
    module.log = lambda *_, **__: None
    return module.train()


def test_pseudo_labels_add_to_the_loss_of_any_model_once_the_teacher_lags_behind():
    pairs = PairDataset(read_pairs("synthetic", "trn").pairs, 84)
    batch = collate([pairs[0], pairs[1]])
    module = module_with("pseudo.weight=1", "pseudo.decay=0.75")
    alone = module_with().training_step(batch, 0)
    assert_close(module.training_step(batch, 0), alone)  # the teacher is the model itself, and agrees with it
    before = [each.clone() for each in module.teacher.averaged.features.parameters()]
    with torch.no_grad():
        for parameter in module.model.features.parameters():
            parameter.add_(1.0)
    module.teacher.follow(module.model)
    for old, new in zip(before, module.teacher.averaged.features.parameters(), strict=True):
        assert_close(new, old + 0.25)
    with torch.no_grad():
        for parameter in module.model.features.parameters():
            parameter.copy_(torch.randn_like(parameter))
    loss = module.training_step(batch, 0)
    module.recipe = module_with().recipe
    module.teacher = None
    assert loss > module.training_step(batch, 0)
    loss.backward()
    assert all(parameter.grad is not None for parameter in module.model.features.parameters())


def test_a_checkpoint_holds_the_teacher_besides_the_model():
    module = module_with("pseudo.weight=1")
    own = module.model.state_dict().keys()
    state = module.state_dict()
    assert model_weights(state).keys() == own
    assert {key.removeprefix("teacher.averaged.") for key in state if key.startswith("teacher.")} == own


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("pseudo.weight=-1", "weight must not be negative"),
        ("pseudo.first_share=0", "first_share and last_share"),
        ("pseudo.last_share=0.1", "first_share and last_share"),
        ("pseudo.reach=0", "reach must be positive"),
        ("pseudo.decay=1", "decay must be between 0 and 1"),
    ],
)
def test_impossible_settings_are_refused(assignment, says):
    with pytest.raises(ConfigError, match=says):
        override(Recipe(model=presets.tiny()), [assignment])


def test_a_readout_without_a_gradient_is_refused():
    with pytest.raises(ConfigError, match="an argmax passes no gradient"):
        override(Recipe(model=presets.nearest()), ["pseudo.weight=1"])
