import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from mambamatcher.ops import conv4d as module
from mambamatcher.ops.conv4d import conv4d


def by_conv3d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute a 4D convolution from 3D convolutions over the last three dimensions, one per tap of the first."""
    reach = weight.shape[2] // 2
    out = torch.zeros(x.shape[0], weight.shape[0], *x.shape[2:], dtype=x.dtype)
    for row in range(x.shape[2]):
        for tap in range(weight.shape[2]):
            at = row + tap - reach
            if 0 <= at < x.shape[2]:
                out[:, :, row] += torch.nn.functional.conv3d(x[:, :, at], weight[:, :, tap], padding=reach)
    return out + bias.view(-1, 1, 1, 1, 1)


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(*(st.integers(1, 5) for _ in range(4))), st.sampled_from([1, 3, 5]), st.integers(1, 3), st.integers(1, 2)
)
def test_equals_3d_convolutions_for_any_grid_and_kernel(grid, size, before, after):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, before, *grid, generator=generator, dtype=torch.float64)
    weight = torch.randn(after, before, *(size,) * 4, generator=generator, dtype=torch.float64)
    bias = torch.randn(after, generator=generator, dtype=torch.float64)
    assert_close(conv4d(x, weight, bias), by_conv3d(x, weight, bias))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_taking_few_rows_at_a_time_changes_nothing(size, monkeypatch):
    x, weight = torch.randn(1, 2, 6, 3, 4, 5).double(), torch.randn(1, 2, *(size,) * 4).double()
    whole = conv4d(x, weight)
    monkeypatch.setattr(module, "SLICE_ELEMENTS", 1)
    assert_close(conv4d(x, weight), whole)


@pytest.mark.parametrize("size", [5, 7])
def test_fourier_transforms_give_what_2d_convolutions_give_in_single_precision(size, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 3, 4, 5, 6, 7, generator=generator)
    weight = torch.randn(2, 3, *(size,) * 4, generator=generator)
    by_fourier = conv4d(x, weight)
    monkeypatch.setattr(module, "FOURIER_SIZE", 99)
    assert_close(by_fourier, conv4d(x, weight), rtol=0, atol=3e-6 * by_fourier.abs().max().item())


@pytest.mark.parametrize("size", [3, 5])
def test_gradients_are_right(size):
    x = torch.randn(1, 2, 3, 2, 2, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 2, *(size,) * 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(conv4d, (x, weight, bias), fast_mode=True)
