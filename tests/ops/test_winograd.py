import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mambamatcher.ops import winograd
from mambamatcher.ops.winograd import POINTS, Weights, best_tile, convolve_twice, matrices


def layers(channels: int, hidden: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    widen = torch.randn(hidden, channels, 3, 3, generator=generator) / (3 * channels**0.5)
    narrow = torch.randn(channels, hidden, 3, 3, generator=generator) / (3 * hidden**0.5)
    return widen, torch.randn(hidden, generator=generator), narrow, torch.randn(channels, generator=generator)


def direct(maps, widen, bias, narrow, last_bias, activate):
    """Compute both convolutions in float64 with torch's convolution."""
    maps, widen, bias, narrow, last_bias = (each.double() for each in (maps, widen, bias, narrow, last_bias))
    out = F.conv2d(F.relu(F.conv2d(maps, widen, bias, padding=1)), narrow, last_bias, padding=1)
    return F.relu(out) if activate else out


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found - expected).abs().max() / expected.abs().max()).item()


@pytest.mark.parametrize("tile", POINTS)
@pytest.mark.parametrize("grid", [(1, 1), (4, 6), (5, 7), (13, 12)])
@pytest.mark.parametrize("activate", [False, True])
def test_agrees_with_direct_convolution_on_every_grid(tile, grid, activate):
    widen, bias, narrow, last_bias = layers(16, 24)
    maps = torch.randn(3, 16, *grid, generator=torch.Generator().manual_seed(1))
    found = convolve_twice(maps, Weights(widen, bias, narrow, tile), last_bias, tile, activate)
    assert found.shape == maps.shape
    assert relative_error(found, direct(maps, widen, bias, narrow, last_bias, activate)) < 1e-5


@pytest.mark.parametrize("tile", POINTS)
def test_stays_within_one_in_ten_thousand_at_the_papers_width(tile):
    widen, bias, narrow, last_bias = layers(768, 3072)
    maps = 3 * torch.randn(1, 768, 6, 6, generator=torch.Generator().manual_seed(1))
    found = convolve_twice(maps, Weights(widen, bias, narrow, tile), last_bias, tile, activate=False)
    assert relative_error(found, direct(maps, widen, bias, narrow, last_bias, False)) < 1e-4


def test_many_maps_and_hidden_channels_are_worked_through_in_parts(monkeypatch):
    monkeypatch.setattr(winograd, "SLICE", 16)
    monkeypatch.setattr(winograd, "TILES_AT_ONCE", 5)
    widen, bias, narrow, last_bias = layers(8, 40)
    maps = torch.randn(4, 8, 7, 11, generator=torch.Generator().manual_seed(1))
    channels_last = maps.contiguous(memory_format=torch.channels_last)
    expected = direct(maps, widen, bias, narrow, last_bias, True)
    for given in (maps, channels_last, maps.expand(4, -1, -1, -1)):
        found = convolve_twice(given, list(Weights(widen, bias, narrow, 4)), last_bias, 4, True)
        assert relative_error(found, expected) < 1e-5


def test_not_a_number_stays_where_a_convolution_would_put_it_or_near():
    widen, bias, narrow, last_bias = layers(8, 8)
    maps = torch.zeros(2, 8, 30, 30)
    maps[1, 3, 2, 2] = torch.nan
    found = convolve_twice(maps, Weights(widen, bias, narrow, 6), last_bias, 6, False)
    assert found[0].isfinite().all()
    assert found[1, :, 2, 2].isnan().all()
    assert found[1, :, 18:, 18:].isfinite().all()


def test_the_transforms_make_a_convolution_of_polynomials():
    rng = np.random.default_rng(0)
    for tile in POINTS:
        forward, weight, back = (each.astype(np.float64) for each in matrices(tile))
        values, taps = rng.normal(size=tile + 2), rng.normal(size=3)
        expected = [values[i : i + 3] @ taps for i in range(tile)]
        np.testing.assert_allclose(back @ ((weight @ taps) * (forward @ values)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("side", "tile"), [(17, 6), (20, 4), (30, 6), (40, 6), (60, 6), (4, 4)])
def test_the_tile_fits_the_grid(side, tile):
    assert best_tile((side, side)) == tile
