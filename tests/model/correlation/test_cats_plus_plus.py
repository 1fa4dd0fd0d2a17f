import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mambamatcher import presets
from mambamatcher.errors import ConfigError, InputError
from mambamatcher.model.config import override
from mambamatcher.model.correlation import CatsPlusPlusAggregation, FeatureShape, correlation_map
from mambamatcher.model.mambamatcher import MambaMatcher, count_parameters
from tests import slow, slow_heads
from tests.helpers import build_untrained
from tests.model.correlation.shaped import check_against, check_constants, check_gradients

GRID = (4, 8)
CHANNELS = (3, 6, 5, 4, 4)  # the levels have different widths, and the features are padded to the widest
SMALL = CatsPlusPlusAggregation(stages=(2, 2, 1), channels=2, appearance=3, width=4, hidden_ratio=2)


def head():
    torch.manual_seed(1)
    module = SMALL.build_for(FeatureShape(CHANNELS, GRID)).double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module


def inputs():
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(2, 2, len(CHANNELS), max(CHANNELS), *GRID, generator=generator, dtype=torch.float64)
    for level, width in enumerate(CHANNELS):
        images[:, :, level, width:] = 0
    return correlation_map(*images).double(), *images


def slow_conv2d(layer, x):
    """Convolve a (channel, h, w) array, one output position at a time."""
    weight, bias, stride, pad = slow.numpy(layer.weight), slow.numpy(layer.bias), layer.stride[0], layer.padding[0]
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    size = weight.shape[2]
    out = np.zeros((len(weight), -(-x.shape[1] // stride), -(-x.shape[2] // stride)))
    for i, j in np.ndindex(*out.shape[1:]):
        window = padded[:, i * stride : i * stride + size, j * stride : j * stride + size]
        out[:, i, j] = (weight * window).sum((1, 2, 3)) + bias
    return out


def largest_of_cells(x, size):
    """Keep the largest value of each cell of the last two axes."""
    out = np.zeros((*x.shape[:-2], x.shape[-2] // size, x.shape[-1] // size))
    for i, j in np.ndindex(*out.shape[-2:]):
        cell = x[..., i * size : (i + 1) * size, j * size : (j + 1) * size]
        out[..., i, j] = cell.reshape(*x.shape[:-2], -1).max(-1)
    return out


def swapped(x):
    return x.transpose(0, 3, 4, 1, 2)


def slow_separable(layer, x):
    def over_last(convolution, y):
        planes = [[slow_conv2d(convolution, y[:, i, j]) for j in range(y.shape[2])] for i in range(y.shape[1])]
        return np.array(planes).transpose(2, 0, 1, 3, 4)

    of_target = over_last(layer.over_target, swapped(largest_of_cells(swapped(x), layer.stride[0])))
    of_source = over_last(layer.over_source, swapped(largest_of_cells(x, layer.stride[1])))
    return swapped(of_source) + of_target


def slow_norm(layer, x):
    scale, shift = (slow.numpy(each).reshape(-1, 1, 1, 1, 1) for each in (layer.weight, layer.bias))
    return (x - x.mean()) / np.sqrt(x.var() + layer.eps) * scale + shift


def slow_block(block, x, appearance):
    channels, ht, wt = x.shape[0], *x.shape[3:]
    seen = slow_norm(block.norm, x)
    scores = slow_norm(block.embed[1], slow_separable(block.embed[0], seen))
    value = slow_norm(block.value[1], slow_separable(block.value[0], seen))
    places = list(np.ndindex(ht, wt))
    tokens = np.array([np.concatenate([scores[..., *at].ravel(), appearance[:, *at]]) for at in places])
    query, key = np.split(slow.linear(block.query_key, tokens), 2, axis=-1)
    attended = np.zeros_like(x)
    for head in range(channels):
        q, k = (each[:, head::channels] + slow.numpy(block.positions) for each in (query, key))
        for position, place in enumerate(places):
            weights = slow.softmax(k @ q[position] / np.sqrt(q.shape[1]))
            attended[head][..., *place] = sum(
                weight * value[head][..., *there] for weight, there in zip(weights, places, strict=True)
            )
    x = x + attended
    norm, widen, _, narrow = block.feed_forward
    return x + slow_separable(narrow, slow.gelu(slow_separable(widen, slow_norm(norm, x))))


def slow_cats_plus_plus(module, maps, source, target):
    ends = np.cumsum(SMALL.stages)
    refined = None
    for stage in (2, 1, 0):
        levels = np.maximum(maps[ends[stage] - SMALL.stages[stage] : ends[stage]], 0)
        convolution, norm, _ = module.embed[stage]
        x = np.maximum(slow_norm(norm, slow_separable(convolution, levels)), 0)
        if refined is not None:
            x = x + np.stack([slow_heads.upsample4d(channel, 2) for channel in refined])
        last = ends[stage] - 1
        project, _, _ = module.appearance[stage]
        of_source, of_target = (
            np.maximum(slow_conv2d(project, image[last, : CHANNELS[last]]), 0) for image in (source, target)
        )
        block = module.blocks[stage]
        refined = x + slow_block(block, x, of_target) + swapped(slow_block(block, swapped(x), of_source))
    return refined.mean(0)


def test_equals_its_slow_obvious_version():
    check_against(slow_cats_plus_plus, head(), *inputs())


def test_gives_one_map_with_finite_non_zero_gradients():
    check_gradients(head(), *inputs())


def test_constant_maps_give_finite_scores():
    check_constants(head(), *inputs())


def test_training_drops_channels_of_the_appearance():
    module = head()
    given = inputs()
    assert_close(module.refine_pair(*given), module.refine_pair(*given))
    module.train()
    assert not torch.equal(module.refine_pair(*given), module.refine_pair(*given))


def test_the_preset_has_the_published_sizes():
    config = presets.cats_plus_plus()
    model = build_untrained(override(config, ["backbone.weights=random"]))
    assert (config.side, model.correlation.grid) == (512, (32, 32))
    assert model.level_channels == (*(512,) * 4, *(1024,) * 23, *(2048,) * 3)
    assert count_parameters(model.correlation) == 5_497_576
    with torch.device("meta"):
        encoded = torch.rand(1, 30, 2048, 32, 32)
        assert model.correlate(encoded, encoded).shape == (1, 32, 32, 32, 32)


def test_sixteen_levels_on_a_16x16_grid_are_three_stages_of_5_5_and_6_levels():
    with torch.device("meta"):
        module = CatsPlusPlusAggregation().build_for(FeatureShape((384,) * 16, (16, 16)))
        encoded = torch.rand(1, 16, 384, 16, 16)
        refined = module.refine_pair(torch.rand(1, 16, 16, 16, 16, 16), encoded, encoded)
    assert module.sizes == (5, 5, 6)
    assert refined.shape == (1, 16, 16, 16, 16)


def test_a_whole_model_transfers_points():
    changes = ["side=112", "correlation=cats_plus_plus", "correlation.width=8"]
    model = MambaMatcher(override(presets.tiny(), changes)).eval()
    images = torch.rand(2, 1, 3, 112, 112, generator=torch.Generator().manual_seed(0))
    assert model(images[0], images[1], torch.zeros(1, 4, 2)).shape == (1, 4, 2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: SMALL.build_for(FeatureShape(CHANNELS, (15, 15))), "multiples of 4, such as 16x16 .* got 15x15"),
        (lambda: SMALL.build_for(FeatureShape(CHANNELS, (80, 80))), "up to 4,096 positions .* got 80x80"),
        (lambda: SMALL.build_for(FeatureShape((3,) * 7, GRID)), "takes 5 levels, as correlation.stages says; .* 7"),
        (lambda: CatsPlusPlusAggregation().build_for(FeatureShape((3, 3), GRID)), "takes 3 levels or more; .* have 2"),
        (lambda: CatsPlusPlusAggregation(stages=(2, 2)), "must have 3 numbers or none"),
        (lambda: CatsPlusPlusAggregation(width=6), "use a multiple of 4"),
        (lambda: CatsPlusPlusAggregation(dropout=1.0), "dropout must be"),
        (lambda: CatsPlusPlusAggregation().build(16), "call build_for"),
    ],
)
def test_impossible_choices_are_answered_with_what_it_takes(wrong, says):
    with pytest.raises(ConfigError, match=says):
        wrong()


def test_a_map_of_another_grid_is_refused():
    other = torch.zeros(1, len(CHANNELS), 6, 8, 8, dtype=torch.float64)
    with pytest.raises(InputError, match="this CATs\\+\\+ head was built for a 4x8 grid in both images, got 8x8"):
        head().refine_pair(correlation_map(other, other), other, other)
