"""The feature aggregations of other systems, which turn levels into scales or slices."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mambamatcher.errors import ConfigError
from mambamatcher.model.correlation import HoughAggregation, correlation_map
from mambamatcher.model.features import ScaleSpaceAggregation, SlicedAggregation
from tests import slow, slow_heads

LEVELS, CHANNELS = 2, 8
SOURCE_GRID, TARGET_GRID = (2, 3), (4, 5)  # all four sizes differ, so a swapped axis fails
SCALES = (0.5, 1.0, 2.0)


def features(levels: int = LEVELS) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, levels, CHANNELS, *grid) for grid in (SOURCE_GRID, TARGET_GRID)]
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)


def scale_space(scales=SCALES):
    torch.manual_seed(1)
    return ScaleSpaceAggregation(scales=scales).build(CHANNELS, LEVELS).double()


def resize(x: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Interpolate the last axes linearly to other sizes, one position at a time; positions are cell centres."""
    for axis, size in enumerate(sizes, start=x.ndim - len(sizes)):
        count = x.shape[axis]
        slices = []
        for place in range(size):
            at = min(max((place + 0.5) * count / size - 0.5, 0), count - 1)
            low = int(at)
            high = min(low + 1, count - 1)
            slices.append(x.take(low, axis) * (low + 1 - at) + x.take(high, axis) * (at - low))
        x = np.stack(slices, axis)
    return x


def slow_scale_space(module, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """CHM's order: resize, convolve, correlate every pair of scales, and only then resize the scores to the grid."""

    def at_scales(maps: np.ndarray) -> list[np.ndarray]:
        found = []
        for scale, convolution in zip(module.scales, module.convolutions, strict=True):
            small = resize(maps, tuple(round(side * math.sqrt(scale)) for side in maps.shape[1:]))
            convolved = slow.conv(small, slow.numpy(convolution.weight), np.zeros(len(convolution.weight)))
            found.append(convolved / np.linalg.norm(convolved, axis=0))
        return found

    pairs = []
    for first in at_scales(source):
        for second in at_scales(target):
            scores = np.einsum("chw,cij->hwij", first, second)
            pairs.append(resize(scores, (*source.shape[1:], *target.shape[1:])))
    return np.stack(pairs)


@pytest.mark.parametrize("scales", [SCALES, (1.0,), (0.4, 3.0)])
def test_the_scale_space_gives_the_interpolated_similarities_of_all_pairs_of_scales(scales):
    module = scale_space(scales)
    source, target = features()
    correlation = correlation_map(*module(source, target))
    pairs = len(scales) ** 2
    assert correlation.shape[1] == ScaleSpaceAggregation(scales=scales).levels_after(LEVELS) == LEVELS * pairs
    for b in range(2):
        for level in range(LEVELS):
            expected = slow_scale_space(module, slow.numpy(source[b, level]), slow.numpy(target[b, level]))
            found = slow.numpy(correlation[b, level * pairs : (level + 1) * pairs])
            assert_close(found, expected, rtol=0, atol=2e-6)


def test_gradients_of_the_scale_space_are_the_slopes_of_the_slow_version():
    module, step = scale_space(), 1e-6
    source, target = features(levels=1)
    leaves = [source.requires_grad_(), target.requires_grad_(), *module.parameters()]
    generator = torch.Generator().manual_seed(3)
    directions = [torch.randn(leaf.shape, generator=generator).double() for leaf in leaves]
    correlation = correlation_map(*module(source, target))
    weights = torch.randn(correlation.shape[1:], generator=generator).double()
    gradients = torch.autograd.grad((correlation[0] * weights).sum(), leaves)
    sums = []
    for sign in (1, -2):  # one step forwards, then two back
        with torch.no_grad():
            for leaf, direction in zip(leaves, directions, strict=True):
                leaf += sign * step * direction
        expected = slow_scale_space(module, slow.numpy(source[0, 0]), slow.numpy(target[0, 0]))
        sums.append((expected * weights.numpy()).sum())
    slope = sum((g * d).sum().item() for g, d in zip(gradients, directions, strict=True))
    assert slope == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=1e-4)


def test_the_pairs_of_scales_go_to_the_hough_head_as_they_are():
    features_of, head = scale_space(), HoughAggregation(kernel_size=3).build(9).double()
    assert not [name for name, _ in head.named_parameters() if name.startswith("embed")]
    source, target = features(levels=1)
    refined = head(correlation_map(*features_of(source, target)))
    maps = slow_scale_space(features_of, slow.numpy(source[0, 0]), slow.numpy(target[0, 0]))
    expected = slow_heads.hough(head, maps, HoughAggregation(kernel_size=3))
    assert_close(slow.numpy(refined[0]), expected, rtol=1e-5, atol=1e-6)


def test_features_of_zeros_have_the_similarity_zero_and_finite_gradients():
    source, target = (torch.zeros_like(x).requires_grad_() for x in features())
    correlation = correlation_map(*scale_space()(source, target))
    assert_close(correlation, torch.zeros_like(correlation))
    correlation.sum().backward()
    assert source.grad is not None
    assert source.grad.isfinite().all()


def test_slices_are_the_channels_of_each_level_in_order_without_the_padding():
    source, _ = features(levels=3)
    config = SlicedAggregation(slices=4, channels=(4, 8, 2))
    module = config.build(CHANNELS, 3)
    slices = module.per_image(source)
    expected = [source[:, level, first : first + 2] for level, n in enumerate((4, 8, 2)) for first in range(0, n, 2)]
    assert slices.shape[1] == config.levels_after(3) == 7
    assert torch.equal(slices, torch.stack(expected, dim=1))


def test_levels_of_equal_width_need_no_list_of_channels():
    source, _ = features()
    slices = SlicedAggregation(slices=2).build(CHANNELS, LEVELS).per_image(source)
    assert slices.shape == (2, SlicedAggregation(slices=2).levels_after(LEVELS), 4, *SOURCE_GRID)
    assert torch.equal(slices.reshape(source.shape), source)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: ScaleSpaceAggregation(scales=()), "one to five numbers"),
        (lambda: ScaleSpaceAggregation(scales=(0.01,)), "from 0.1 to 10"),
        (lambda: SlicedAggregation(slices=0), "from 1 to 64"),
        (lambda: SlicedAggregation(slices=2, channels=(8, 3)), "do not divide the 3 channels"),
        (lambda: SlicedAggregation(slices=3).build(8), "does not divide 8 channels"),
        (lambda: SlicedAggregation(channels=(8, 8)).build(8, 3), "names 2 levels .* gives 3 of 8"),
        (lambda: SlicedAggregation(channels=(8, 8)).build(16, 2), "up to 8 channels, .* gives 2 of 16"),
    ],
)
def test_impossible_choices_are_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        wrong()
