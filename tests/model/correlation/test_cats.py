import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mambamatcher import presets
from mambamatcher.errors import ConfigError, InputError
from mambamatcher.model.config import override
from mambamatcher.model.correlation import CatsAggregation, FeatureShape, correlation_map
from mambamatcher.model.features import FEATURE_AGGREGATIONS
from mambamatcher.model.mambamatcher import MambaMatcher, count_parameters
from tests import slow, slow_heads
from tests.helpers import build_untrained
from tests.model.correlation.shaped import check_against, check_constants, check_gradients

GRID = (2, 3)
CHANNELS = (4, 7, 5)  # the levels have different widths, and the features are padded to the widest
SMALL = CatsAggregation(appearance=6, depth=2, heads=3, hidden_ratio=2)


def head(channels=CHANNELS, config=SMALL):
    torch.manual_seed(1)
    module = config.build_for(FeatureShape(channels, GRID)).double()
    for parameter in module.parameters():  # initial weights are small, and would hide errors
        torch.nn.init.normal_(parameter, std=0.5)
    return module


def features(seed: int, channels=CHANNELS) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(2, len(channels), max(channels), *GRID, generator=generator, dtype=torch.float64)
    for level, width in enumerate(channels):
        values[:, level, width:] = 0
    return values


def inputs(channels=CHANNELS):
    source, target = features(2, channels), features(3, channels)
    return correlation_map(source, target).double(), source, target


def slow_block(block, tokens):
    """Attention among the positions of each level, then among the levels of each position; (level, position, width)."""
    tokens = np.stack([slow.attention(block.within, level, level) for level in tokens])
    if block.across is None:
        return tokens
    across = [slow.attention(block.across, tokens[:, n], tokens[:, n]) for n in range(tokens.shape[1])]
    return np.stack(across, axis=1)


def slow_side(module, scores, image):
    """One pass of the transformer: a token for each position, with its scores, its projected feature, its place."""
    levels, positions, _ = scores.shape
    tokens = []
    for level in range(levels):
        project = module.appearance[level]
        for position in range(positions):
            row, column = divmod(position, GRID[1])
            appearance = slow.linear(project, image[level, : project.in_features, row, column])
            x, y = (slow.numpy(table)[level] for table in (module.columns, module.rows))
            place = np.concatenate([x[0, column], y[row, 0]])
            tokens.append(np.concatenate([scores[level, position], appearance]) + place)
    tokens = np.array(tokens).reshape(levels, positions, -1)
    for block in module.blocks:
        tokens = slow_block(block, tokens)
    return slow.linear(module.project, tokens)


def slow_cats(module, maps, source, target):
    positions = GRID[0] * GRID[1]
    filtered = slow_heads.mutual(maps).reshape(len(maps), positions, positions)
    refined = filtered + slow_side(module, filtered, source)
    swapped = slow_side(module, refined.transpose(0, 2, 1), target)
    return (filtered + swapped.transpose(0, 2, 1)).mean(0).reshape(*GRID, *GRID)


@pytest.mark.parametrize("channels", [CHANNELS, (5,)], ids=["three levels", "one level"])
def test_equals_its_slow_obvious_version(channels):
    check_against(slow_cats, head(channels), *inputs(channels))


def test_gives_one_map_with_finite_non_zero_gradients():
    check_gradients(head(), *inputs())


def test_constant_maps_give_finite_scores():
    check_constants(head(), *inputs())


def test_an_untrained_head_returns_about_the_mean_of_the_filtered_levels():
    torch.manual_seed(0)
    identical = torch.eye(6).reshape(1, 1, *GRID, *GRID).expand(-1, 3, -1, -1, -1, -1)  # what the filter keeps
    module = CatsAggregation(appearance=6, heads=3).build_for(FeatureShape(CHANNELS, GRID))
    refined = module.refine_pair(identical, *(features(seed)[:1].float() for seed in (1, 2)))
    assert_close(refined.reshape(6, 6), torch.eye(6), rtol=0, atol=0.2)


def test_the_preset_has_the_published_sizes():
    config = presets.cats()
    model = build_untrained(override(config, ["backbone.weights=random"]))
    assert (config.side, model.correlation.grid) == (256, (16, 16))
    assert model.level_channels == (64, *(1024,) * 7)
    assert count_parameters(model.correlation.appearance) == 926_720
    assert count_parameters(model.correlation) == 4_623_360
    head = config.correlation
    assert (head.appearance, head.depth, head.heads, head.hidden_ratio) == (128, 1, 6, 4)


def test_it_fits_sixteen_levels_of_any_width_on_a_16x16_grid():
    with torch.device("meta"):
        module = CatsAggregation().build_for(FeatureShape((384,) * 16, (16, 16)))
        encoded = torch.rand(1, 16, 384, 16, 16)
        assert module.refine_pair(torch.rand(1, 16, 16, 16, 16, 16), encoded, encoded).shape == (1, 16, 16, 16, 16)


@pytest.mark.parametrize("kind", FEATURE_AGGREGATIONS)
def test_it_follows_every_feature_aggregation(kind):
    changes = [f"features={kind}", "correlation=cats", "correlation.appearance=12"]
    model = MambaMatcher(override(presets.tiny(), changes)).eval()
    images = torch.rand(2, 1, 3, 84, 84, generator=torch.Generator().manual_seed(0))
    assert model(images[0], images[1], torch.zeros(1, 4, 2)).shape == (1, 4, 2)


def test_grids_and_options_that_cannot_work_are_answered_with_those_that_can():
    with pytest.raises(ConfigError, match=r"30x30 grid .* 1,028 channels.* use correlation\.appearance=132"):
        CatsAggregation().build_for(FeatureShape((8,), (30, 30)))
    with pytest.raises(ConfigError, match=r"up to 1,024 positions, such as 32x32.* got 60x60"):
        CatsAggregation().build_for(FeatureShape((8,), (60, 60)))
    with pytest.raises(ConfigError, match="call build_for"):
        CatsAggregation().build(16)
    with pytest.raises(ConfigError, match="mirror=false"):
        build_untrained(override(presets.cats(), ["backbone.weights=random", "mirror=true"]))
    with pytest.raises(InputError, match="call refine_pair"):
        head()(inputs()[0])
    wider = torch.zeros(1, 3, 7, 4, 5, dtype=torch.float64)
    with pytest.raises(InputError, match="built for a 2x3 grid in both images, got 4x5 and 4x5"):
        head().refine_pair(correlation_map(wider, wider), wider, wider)
