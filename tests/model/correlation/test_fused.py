import pytest
import torch
from torch.testing import assert_close

from mambamatcher.model.correlation import SimilarityScanAggregation, correlation_map
from mambamatcher.model.layers.mamba import MambaSettings
from mambamatcher.model.layers.scan_orders import SCAN_ORDERS

LEVELS = 5

VARIANTS = {
    **{f"order {name}": {"orders": (name,)} for name in SCAN_ORDERS},
    **{f"key {name}": {"sort_key": name} for name in ("penultimate", "mean")},
    **{f"positional {name}": {"positional": name} for name in ("sinusoidal", "learnable")},
    "norm": {"norm": True},
    "no residual": {"residual": False},
    "zero-order hold": {"mamba": MambaSettings(state=3, expand=2, discretization="zoh")},
    "layer scale": {"layer_scale": 0.5},
    "standardized": {"standardize": True},
    "rows, not fused": {"scope": "source"},
    "steered, not fused": {"steered": True},
    "no state, not fused": {"mamba": MambaSettings(state=0)},
    "two blocks, not fused": {"depth": 2},
    "two orders, not fused": {"orders": ("raster", "reverse_raster")},
}


def correlation(requires_grad: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(2, LEVELS, 6, 2, 3, generator=generator, requires_grad=requires_grad)
    return correlation_map(source, torch.randn(2, LEVELS, 6, 4, 5, generator=generator))


@pytest.mark.parametrize("variant", VARIANTS)
def test_inference_gives_what_the_modules_own_forward_gives(variant):
    torch.manual_seed(1)
    module = SimilarityScanAggregation(**VARIANTS[variant]).build(LEVELS)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    expected = module(correlation())
    assert expected.requires_grad
    with torch.inference_mode():
        assert_close(module(correlation()), expected.detach(), rtol=1e-4, atol=1e-5)
    assert module.can_be_fused != ("not fused" in variant)


def test_maps_for_inference_hold_their_levels_side_by_side_and_the_same_values(monkeypatch):
    expected = correlation(requires_grad=True)
    for elements in (2**22, 100, 1):
        monkeypatch.setattr("mambamatcher.model.correlation.compute.BLOCK_ELEMENTS", elements)
        with torch.inference_mode():
            found = correlation()
        assert found.stride(1) == 1
        assert_close(found, expected.detach())
