import re

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mambamatcher.errors import ConfigError
from mambamatcher.model.backbones import ResNetConfig
from mambamatcher.model.backbones.facets import IMAGENET_MEAN, IMAGENET_STD
from mambamatcher.model.backbones.resnet import DEPTHS


def torchvision_state(depths: list[int]) -> dict[str, torch.Tensor]:
    """Return a random state dict with the names and shapes of torchvision, including the classifier."""
    state = {"fc.weight": torch.randn(1000, 2048), "fc.bias": torch.randn(1000)}

    def add(conv: str, norm: str, after: int, before: int, size: int) -> None:
        state[f"{conv}.weight"] = torch.randn(after, before, size, size) / (before * size * size) ** 0.5
        for name in ("weight", "bias", "running_mean"):
            state[f"{norm}.{name}"] = 1 + 0.1 * torch.randn(after) if name == "weight" else 0.1 * torch.randn(after)
        state[f"{norm}.running_var"] = torch.rand(after) + 0.5
        state[f"{norm}.num_batches_tracked"] = torch.tensor(1)

    add("conv1", "bn1", 64, 3, 7)
    before = 64
    for stage, depth in enumerate(depths):
        inner = 64 * 2**stage
        for block in range(depth):
            root = f"layer{stage + 1}.{block}"
            add(f"{root}.conv1", f"{root}.bn1", inner, before, 1)
            add(f"{root}.conv2", f"{root}.bn2", inner, inner, 3)
            add(f"{root}.conv3", f"{root}.bn3", 4 * inner, inner, 1)
            if block == 0:
                add(f"{root}.downsample.0", f"{root}.downsample.1", 4 * inner, before, 1)
            before = 4 * inner
    return state


def slow_levels(
    state: dict[str, torch.Tensor], depths: list[int], images: torch.Tensor, before_relu: bool
) -> dict[int, torch.Tensor]:
    """Compute the stem's output (-1) and every bottleneck's directly from the state dict."""

    def unit(x, conv, norm, stride=1, pad=0):
        x = F.conv2d(x, state[f"{conv}.weight"], stride=stride, padding=pad)
        stats = (state[f"{norm}.{n}"] for n in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *stats)

    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    x = F.max_pool2d(F.relu(unit((images - mean) / std, "conv1", "bn1", 2, 3)), 3, 2, 1)
    seen = {-1: x}
    for stage, depth in enumerate(depths):
        for block in range(depth):
            root, stride = f"layer{stage + 1}.{block}", 2 if stage and not block else 1
            y = F.relu(unit(x, f"{root}.conv1", f"{root}.bn1"))
            y = F.relu(unit(y, f"{root}.conv2", f"{root}.bn2", stride, 1))
            y = unit(y, f"{root}.conv3", f"{root}.bn3")
            total = y + (x if block else unit(x, f"{root}.downsample.0", f"{root}.downsample.1", stride))
            x = F.relu(total)
            seen[len(seen) - 1] = total if before_relu else x
    return seen


@pytest.mark.parametrize("before_relu", [False, True])
def test_levels_of_a_torchvision_checkpoint_equal_a_hand_written_forward_pass(tmp_path, before_relu):
    torch.manual_seed(0)
    depths = DEPTHS["resnet-50"]
    state = torchvision_state(depths)
    torch.save(state, tmp_path / "resnet50.pth")
    config = ResNetConfig(
        name="resnet-50",
        layers=(-1, 2, 6, 12, 15),
        weights=str(tmp_path / "resnet50.pth"),
        width=None,
        before_relu=before_relu,
    )
    images = torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        backbone = config.build()
        levels = backbone(images)
        expected = slow_levels(state, depths, images, before_relu)
    assert levels.shape == (1, 5, 2048, 4, 6)
    assert backbone.level_channels == (64, 256, 512, 1024, 2048)
    for index, layer in enumerate(config.layers):
        wanted = F.interpolate(expected[layer], (4, 6), mode="bilinear", align_corners=False)
        assert_close(levels[:, index, : wanted.shape[1]], wanted, rtol=1e-3, atol=1e-4)
        assert (levels[:, index, wanted.shape[1] :] == 0).all()


def test_each_level_has_a_projection_of_its_own_to_the_common_width():
    backbone = ResNetConfig(name="resnet-50", layers=(6, 15), weights="random", width=24).build()
    assert backbone.channels == 24
    assert [tuple(p.weight.shape) for p in backbone.projections] == [(24, 512, 1, 1), (24, 2048, 1, 1)]
    assert backbone(torch.rand(1, 3, 64, 32)).shape == (1, 2, 24, 4, 2)


def test_statistics_stay_frozen_while_training():
    backbone = ResNetConfig(name="resnet-50", layers=(15,), weights="random", width=8).build().train()
    before = {k: v.clone() for k, v in backbone.network.state_dict().items() if re.search("running|batches", k)}
    backbone(torch.rand(2, 3, 64, 64))
    for key, value in before.items():
        assert_close(backbone.network.state_dict()[key], value, rtol=0, atol=0)


def test_an_unknown_network_says_what_was_meant():
    with pytest.raises(ConfigError, match="Did you mean 'resnet-101'"):
        ResNetConfig(name="resnet101")
