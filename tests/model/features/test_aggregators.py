import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mambamatcher.errors import ConfigError
from mambamatcher.model.features import (
    FEATURE_AGGREGATIONS,
    AttentionAggregation,
    ConvAggregation,
    FusedAggregation,
    Mamba2dAggregation,
)
from tests import slow

LEVELS, CHANNELS = 2, 6
SOURCE_GRID, TARGET_GRID = (2, 3), (4, 5)  # all four sizes differ, so a swapped axis fails

# they change the levels or the channels, and have their own tests
OTHER_SHAPES = {"fused", "scale_space", "sliced", "spatial_context"}

# every row of the paper's feature table
ROWS = {
    **{name: config() for name, config in FEATURE_AGGREGATIONS.items() if name not in OTHER_SHAPES},
    "conv k=1": ConvAggregation(kernel_size=1),
    "conv k=5": ConvAggregation(kernel_size=5),
    "conv residual": ConvAggregation(residual=True, final_activation=False),
    "attention cross": AttentionAggregation(cross=True),
    "mamba2d bidirectional": Mamba2dAggregation(orders=("raster", "reverse_raster")),
    "mamba2d z_order": Mamba2dAggregation(orders=("z_order",)),
}


def features(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(2, LEVELS, CHANNELS, *grid, generator=generator) for grid in (SOURCE_GRID, TARGET_GRID))


def build(config):
    torch.manual_seed(1)
    module = config.build(CHANNELS).double()
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():  # a residual branch that starts at zero would hide errors
                parameter.normal_(std=0.1)
    return module


def slow_none(module, maps, other):
    return maps


def slow_conv(module, maps, other):
    hidden = np.maximum(slow.conv(maps, slow.numpy(module.widen.weight), slow.numpy(module.widen.bias)), 0)
    out = slow.conv(hidden, slow.numpy(module.narrow.weight), slow.numpy(module.narrow.bias))
    out = np.maximum(out, 0) if module.final_activation else out
    return maps + out if module.residual else out


def tokens_of(maps: np.ndarray) -> np.ndarray:
    return np.stack([maps[:, i, j] for i in range(maps.shape[1]) for j in range(maps.shape[2])])


def maps_of(tokens: np.ndarray, like: np.ndarray) -> np.ndarray:
    out = np.zeros_like(like)
    for position, token in enumerate(tokens):
        out[:, position // like.shape[2], position % like.shape[2]] = token
    return out


def slow_attention(module, maps, other):
    own, others = tokens_of(maps), tokens_of(other)
    if not hasattr(module, "across"):
        return maps_of(slow.attention(module.block, own, own), maps)
    own, others = slow.attention(module.within, own, own), slow.attention(module.within, others, others)
    return maps_of(slow.attention(module.across, own, others), maps)


def slow_mamba2d(module, maps, other, orders=("raster",)):
    tokens = tokens_of(maps)
    walks = [slow.scan_order(name, tokens[:, 0], maps.shape[1:]) for name in orders]
    return maps_of(tokens + slow.ordered_scan(module.scan, tokens, walks), maps)


def slow_plain_mamba(module, maps, other):
    tokens = tokens_of(maps)
    return maps_of(tokens + slow.snake_scan(module.scan, tokens, maps.shape[1:]), maps)


SLOW = {
    "none": slow_none,
    "conv": slow_conv,
    "attention": slow_attention,
    "mamba2d": slow_mamba2d,
    "plain_mamba": slow_plain_mamba,
}


def test_every_registered_aggregation_has_a_slow_version():
    assert SLOW.keys() | OTHER_SHAPES == FEATURE_AGGREGATIONS.keys()


@pytest.mark.parametrize("row", ROWS)
def test_equals_its_slow_obvious_version(row):
    config = ROWS[row]
    name = FEATURE_AGGREGATIONS.name_of(type(config))
    module = build(config)
    if name == "plain_mamba":
        torch.nn.init.normal_(module.scan.direction_B)  # initialised close to zero, which would hide a wrong direction
    source, target = (x.double() for x in features())
    extra = {"orders": config.orders} if isinstance(config, Mamba2dAggregation) else {}
    for result, own, other in zip(module(source, target), (source, target), (target, source), strict=True):
        for b in range(2):
            for level in range(LEVELS):
                expected = SLOW[name](module, slow.numpy(own[b, level]), slow.numpy(other[b, level]), **extra)
                assert_close(slow.numpy(result[b, level]), expected, rtol=2e-5, atol=2e-6)


def slow_fused(module, levels):
    normalised = [(level - level.mean(0)) / np.sqrt(level.var(0) + 1e-5) for level in levels]
    joined = np.concatenate(normalised)
    weight, bias = slow.numpy(module.project.weight), slow.numpy(module.project.bias)
    fused = np.einsum("oc,chw->ohw", weight, joined) + bias[:, None, None]
    padded = np.pad(fused, ((0, 0), (1, 1), (1, 1)))
    kernel, h, w = slow.numpy(module.neighbours.weight)[:, 0], *fused.shape[1:]
    near = sum(kernel[:, i, j, None, None] * padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3))
    near = near + slow.numpy(module.neighbours.bias)[:, None, None]
    active = near * (1 + np.vectorize(math.erf)(near / math.sqrt(2))) / 2
    mixed = np.einsum("oc,chw->ohw", slow.numpy(module.mix.weight)[..., 0, 0], active)
    return fused + mixed + slow.numpy(module.mix.bias)[:, None, None]


def test_fused_levels_equal_a_slow_version_and_every_parameter_has_a_gradient():
    torch.manual_seed(1)
    config = FusedAggregation(width=5)
    module = config.build(CHANNELS, LEVELS).double()
    source, target = (x.double().requires_grad_() for x in features())
    untrained = module.per_image(source)
    assert untrained.shape[1] == config.levels_after(LEVELS) == 1
    assert untrained.shape[1:3] == (1, *config.channels_after((CHANNELS,) * LEVELS))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
    for result, own in zip(module(source, target), (source, target), strict=True):
        for b in range(2):
            assert_close(slow.numpy(result[b, 0]), slow_fused(module, slow.numpy(own[b])), rtol=1e-5, atol=1e-6)
    sum((r * torch.randn_like(r)).sum() for r in module(source, target)).backward()
    assert all(tensor.grad is not None and tensor.grad.abs().sum() > 0 for tensor in (source, *module.parameters()))


@pytest.mark.parametrize("row", ROWS)
def test_keeps_the_shape_and_has_finite_non_zero_gradients(row):
    module = build(ROWS[row]).float()
    source, target = (x.requires_grad_() for x in features())
    refined = module(source, target)
    assert [r.shape for r in refined] == [source.shape, target.shape]
    sum((r * torch.randn_like(r)).sum() for r in refined).backward()
    for tensor in (source, target, *module.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().sum() > 0


def test_only_cross_attention_needs_both_images():
    joint = {row for row, config in ROWS.items() if build(config).pairwise}
    assert joint == {"attention cross"}


def test_all_levels_share_the_same_weights():
    module = build(ConvAggregation())
    source, target = (x.double() for x in features())
    refined, _ = module(source, target)
    swapped, _ = module(source.flip(1), target)
    assert_close(swapped, refined.flip(1))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: ConvAggregation(kernel_size=2), "odd"),
        (lambda: replace(ConvAggregation(), hidden_ratio=0), "hidden_ratio"),
        (lambda: Mamba2dAggregation(orders=("descending",)), "no similarity"),
        (lambda: Mamba2dAggregation(orders=("rastr",)), "Did you mean 'raster'"),
        (lambda: FusedAggregation(width=0), "width"),
        (lambda: AttentionAggregation().build(64 * 3 + 1), "heads"),
    ],
)
def test_impossible_choices_are_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        wrong()
