import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mambamatcher import presets
from mambamatcher.errors import ConfigError
from mambamatcher.model.config import override
from mambamatcher.model.features import SpatialContextAggregation
from mambamatcher.model.mambamatcher import count_parameters
from tests import slow
from tests.helpers import build_untrained

LEVELS, CHANNELS, GRID = 2, 6, (4, 5)
SMALL = SpatialContextAggregation(kernel_size=3, width=7)


def slow_context(maps):
    """Cosines with the neighbours on the diagonal, the column, the other diagonal and the row; 0 outside the image."""
    _, h, w = maps.shape
    steps = (-1, 0, 1)
    offsets = [*((s, s) for s in steps), *((s, 0) for s in steps), *((s, -s) for s in steps), *((0, s) for s in steps)]
    out = np.zeros((len(offsets), h, w))
    for n, i, j in np.ndindex(*out.shape):
        k, l = i + offsets[n][0], j + offsets[n][1]  # noqa: E741
        if 0 <= k < h and 0 <= l < w:
            a, b = maps[:, i, j], maps[:, k, l]
            out[n, i, j] = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    return out


def test_equals_its_slow_obvious_version_with_a_projection_for_each_level():
    torch.manual_seed(0)
    module = SMALL.build(CHANNELS, LEVELS).double()
    features = torch.randn(2, LEVELS, CHANNELS, *GRID, dtype=torch.float64)
    encoded = module.per_image(features)
    assert encoded.shape[1:3] == (LEVELS, 7)
    assert SMALL.channels_after((CHANNELS,) * LEVELS) == (7, 7)
    for b, level in np.ndindex(2, LEVELS):
        maps = slow.numpy(features[b, level])
        joined = np.concatenate([maps, slow_context(maps)])
        weight, bias = (slow.numpy(each) for each in module.project[level].parameters())
        expected = np.maximum(np.einsum("oc,chw->ohw", weight[..., 0, 0], joined) + bias[:, None, None], 0)
        assert_close(slow.numpy(encoded[b, level]), expected, rtol=1e-9, atol=1e-9)


def test_every_parameter_and_the_features_have_finite_gradients_even_where_a_feature_is_zero():
    module = SMALL.build(CHANNELS, LEVELS)
    features = torch.randn(2, LEVELS, CHANNELS, *GRID)
    features[:, :, :, 1, 2] = 0
    encoded = module.per_image(features.requires_grad_())
    (encoded * torch.randn_like(encoded)).sum().backward()
    for tensor in (features, *module.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().sum() > 0


def test_the_preset_has_the_published_sizes():
    config = presets.scorrsan()
    model = build_untrained(override(config, ["backbone.weights=random"]))
    assert (config.side, model.level_channels) == (256, (2048,))
    assert (config.features.kernel_size, config.features.width) == (7, 2048)
    assert count_parameters(model.features) == (1024 + 4 * 7) * 2048 + 2048 == 2_156_544
    assert count_parameters(model.correlation) == 0
    with torch.device("meta"):
        encoded = model.encode(torch.rand(1, 3, 256, 256))
        assert encoded.shape == (1, 1, 2048, 16, 16)
        assert model.correlate(encoded, encoded).shape == (1, 64, 64, 64, 64)


def test_an_even_window_is_refused():
    with pytest.raises(ConfigError, match="kernel_size must be odd, got 4"):
        SpatialContextAggregation(kernel_size=4)
