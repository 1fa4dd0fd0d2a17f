import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from mambamatcher import MambaMatcher, presets
from mambamatcher.errors import ConfigError, InputError
from mambamatcher.model.config import override
from mambamatcher.model.correlation import CORRELATION_AGGREGATIONS, ShapedConfig
from mambamatcher.model.features import FEATURE_AGGREGATIONS
from mambamatcher.model.losses import keypoint_loss


@pytest.fixture
def model():
    torch.manual_seed(0)
    return MambaMatcher(presets.tiny()).eval()


def batch(sides=((84, 84), (84, 84)), pairs: int = 2, keypoints: int = 3):
    generator = torch.Generator().manual_seed(0)
    images = [torch.rand(pairs, 3, *side, generator=generator) for side in sides]
    return *images, torch.rand(pairs, keypoints, 2, generator=generator) * 2 - 1


@pytest.mark.parametrize("features", FEATURE_AGGREGATIONS)
@pytest.mark.parametrize(
    "correlation", [name for name, config in CORRELATION_AGGREGATIONS.items() if not issubclass(config, ShapedConfig)]
)
def test_every_combination_of_parts_transfers_points_between_different_grids(features, correlation):
    model = MambaMatcher(override(presets.tiny(), [f"features={features}", f"correlation={correlation}"]))
    points = model(*batch(sides=((28, 42), (56, 70))))
    assert points.shape == (2, 3, 2)
    assert (points.abs() <= 1).all()


def test_one_step_of_training_moves_every_trainable_weight_and_lowers_the_loss(model):
    model.train()
    source, target, points = batch()
    truth, present = points.flip(1), torch.tensor([[True, True, True], [True, False, False]])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    before = {name: p.clone() for name, p in model.named_parameters()}
    losses = []
    for _ in range(5):
        loss = keypoint_loss(model(source, target, points, present), truth, present)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != parameter.requires_grad, name


def test_a_pair_does_not_depend_on_its_batch_nor_on_absent_keypoints(model):
    source, target, points = batch()
    together = model(source, target, points)
    alone = torch.cat([model(source[i : i + 1], target[i : i + 1], points[i : i + 1]) for i in range(2)])
    assert_close(together, alone, rtol=1e-4, atol=1e-5)
    present = torch.tensor([[True, True, False], [True, False, False]])
    padded = points.where(present[..., None], torch.nan)
    assert_close(model(source, target, padded, present)[present], together[present], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_constant_images_give_finite_points_and_gradients(model, value):
    model.train()
    images = torch.full((1, 3, 84, 84), value)
    corners = torch.tensor([[[-1.0, -1.0], [1.0, 1.0], [0.0, -1.0]]])
    points = model(images, images, corners)
    points.sum().backward()
    assert points.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_half_precision_changes_the_result_only_a_little(model):
    source, target, points = batch()
    with torch.no_grad():
        outside = model(source, target, points)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = model(source, target, points)
    assert inside.dtype == torch.float32
    assert_close(inside, outside, rtol=0, atol=0.05)
    assert not torch.equal(inside, outside)


def test_training_and_inference_use_the_papers_two_radii(model):
    source, target, points = batch()
    coarse = MambaMatcher(override(presets.tiny(), ["transfer.training_radius=1.5"]))
    coarse.load_state_dict(model.state_dict())
    assert_close(coarse.eval()(source, target, points), model(source, target, points))
    assert not torch.allclose(coarse.train()(source, target, points), model(source, target, points))


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (torch.zeros(2, 0, 2), "no points"),
        (torch.full((2, 3, 2), 1.5), "unit frame"),
        (torch.full((2, 3, 2), torch.nan), "unit"),
    ],
)
def test_points_that_cannot_be_transferred_are_refused(model, points, says):
    source, target, _ = batch()
    with pytest.raises(InputError, match=says):
        model(source, target, points)


def test_a_mirror_gives_the_mean_of_both_views_similarities_for_inference_only():
    config = override(presets.tiny(), ["correlation=linear"])
    torch.manual_seed(0)
    plain = MambaMatcher(config).eval()
    both = MambaMatcher(replace(config, mirror=True)).eval()
    both.load_state_dict(plain.state_dict())
    source, target, points = batch(sides=((28, 42), (56, 70)))
    with torch.no_grad():
        seen = plain.correlate(plain.encode(source), plain.encode(target))
        mirrored = plain.correlate(plain.encode(source.flip(3)), plain.encode(target.flip(3))).flip(2, 4)
        refined = both.correlate(both.encode(source), both.encode(target))
        assert_close(refined, (seen + mirrored) / 2, rtol=1e-4, atol=1e-5)
        # the match in the mirrored images is the mirror image of the match
        swap = torch.tensor([-1.0, 1.0])
        assert_close(both(source.flip(3), target.flip(3), points * swap) * swap, both(source, target, points))
        both.train()
        assert_close(both.encode(source), plain.encode(source))


def test_a_mirror_is_refused_where_images_are_aggregated_in_pairs():
    with pytest.raises(ConfigError, match="mirror=true needs"):
        MambaMatcher(override(presets.tiny(), ["mirror=true", "features=attention", "features.cross=true"]))


def test_a_side_that_does_not_divide_into_patches_is_refused_with_one_that_does():
    with pytest.raises(ConfigError, match="side 100 does not divide into patches of 14; use 98"):
        MambaMatcher(replace(presets.tiny(), side=100))


WRONG_SHAPES = """
import torch
from mambamatcher import MambaMatcher, presets
from mambamatcher.errors import InputError
model = MambaMatcher(presets.tiny())
images, points = torch.rand(2, 3, 84, 84), torch.zeros(2, 3, 2)
wrong = {
    "no batch": (images[0], images, points),
    "four channels": (torch.rand(2, 4, 84, 84), images, points),
    "bytes": (images, (255 * images).byte(), points),
    "not patches": (images, torch.rand(2, 3, 80, 84), points),
    "flat points": (images, images, points[0]),
    "three coordinates": (images, images, torch.zeros(2, 3, 3)),
    "other batch": (images, images[:1], points),
    "other mask": (images, images, points, torch.ones(2, 4, dtype=torch.bool)),
}
for name, arguments in wrong.items():
    try:
        model(*arguments)
    except InputError as error:
        print(f"{name}: {error}")
"""


def test_wrong_shapes_are_our_own_error_where_no_shape_checks_are_installed():
    # in a child process, because here jaxtyping's checks would raise first
    done = subprocess.run([sys.executable, "-c", WRONG_SHAPES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "no batch",
        "four channels",
        "bytes",
        "not patches",
        "flat points",
        "three coordinates",
        "other batch",
        "other mask",
    ]
