"""The presets of other systems have the sizes that their papers and public code give."""

from dataclasses import replace

import pytest
import torch

from mambamatcher import presets
from mambamatcher.model.correlation import correlation_map
from mambamatcher.model.mambamatcher import MambaMatcher, count_parameters
from mambamatcher.model.transfer_settings import Transfer

CONV4, CONV5 = 23, 3  # bottlenecks of ResNet-101
# side, grid, levels of the correlation map, parameters of the correlation head and of the features, refined grid
SIZES = {
    "ncnet": (400, 25, 1, 5**4 * (1 * 16 + 16 * 16 + 16 * 1) + 16 + 16 + 1, 0, 25),
    "transformatcher": (240, 15, CONV4 + CONV5, 26_093, 0, 30),
    "chm": (240, 15, 9, (4 * 55 + 1) + (55 + 1), 3 * 9 * 1024 * 256, 30),
    "hccnet": (240, 15, CONV4 * 4 + CONV5 * 8, 116 * 128 + 128 + 128 + 1, 0, 30),
}


def build(name: str) -> MambaMatcher:
    config = presets.PRESETS[name]()
    with torch.device("meta"):
        return MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random")))


@pytest.mark.parametrize("name", SIZES)
def test_has_the_published_sizes(name):
    side, grid, levels, of_head, of_features, fine = SIZES[name]
    model = build(name)
    assert model.config.side == side
    assert count_parameters(model.correlation) == of_head
    assert count_parameters(model.features) == of_features
    encoded = model.encode(torch.rand(1, 3, side, side, device="meta"))
    correlation = correlation_map(*model.features.per_pair(encoded, encoded))
    assert correlation.shape == (1, levels, *(grid,) * 4)
    assert model.correlation(correlation).shape == (1, *(fine,) * 4)


def test_transformatcher_has_16_channels_and_six_layers_of_eight_heads_of_four():
    config = presets.transformatcher().correlation
    assert (config.width, config.depth, config.heads, config.head_width, config.rotary) == (16, 6, 8, 4, True)
    assert presets.transformatcher().transfer == Transfer()  # sigma is 10 cells of 30


def test_chm_reads_out_with_a_sigma_of_17_cells_of_30_and_one_radius():
    transfer = presets.chm().transfer
    assert transfer.sigma == pytest.approx(17 * 2 / 30)
    assert transfer.radius == transfer.training_radius == 0.1
    assert (transfer.scores, transfer.temperature) == ("printed", 1.0)


@pytest.mark.parametrize("name", ["transformatcher", "chm", "hccnet"])
def test_the_whole_resnet_is_tuned_as_far_as_it_is_used(name):
    model = build(name)
    used = max(model.config.backbone.layers) + 1
    assert all(p.requires_grad for block in model.backbone.blocks()[:used] for p in block.parameters())
    assert all(p.requires_grad for p in model.backbone.stem())


def test_the_resnet_of_ncnet_is_frozen():
    assert not any(p.requires_grad for p in build("ncnet").backbone.parameters())


@pytest.mark.parametrize("name", SIZES)
def test_the_head_takes_sixteen_levels_of_any_backbone(name):
    config = presets.PRESETS[name]().correlation
    with torch.device("meta"):
        head, maps = config.build(16), torch.rand(1, 16, *(16,) * 4)
    factor = getattr(config, "upsample", 1)
    assert head(maps).shape == (1, *(16 * factor,) * 4)
