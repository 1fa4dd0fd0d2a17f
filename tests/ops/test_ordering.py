import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mambamatcher.ops.ordering import invert, stable_argsort

SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-45, 1.0, -1.0]
scores = arrays("float32", st.integers(0, 300), elements=st.sampled_from(SPECIAL) | st.floats(width=32)).map(
    torch.tensor
)


@settings(deadline=None)
@given(scores=scores, descending=st.booleans())
def test_order_is_that_of_torchs_stable_sort(scores, descending):
    wanted = scores.argsort(dim=-1, descending=descending, stable=True)
    assert torch.equal(stable_argsort(scores, descending), wanted)


def test_every_nan_comes_first_and_keeps_its_place_among_nans():
    negative_nan = torch.tensor(-4194304, dtype=torch.int32).view(torch.float32)  # a NaN may have any sign and payload
    scores = torch.stack([torch.tensor(2.0), negative_nan, torch.tensor(torch.inf), torch.tensor(torch.nan)])
    assert stable_argsort(scores).tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floating_types_are_sorted_too(dtype):
    scores = torch.randn(3, 2, 50).to(dtype).transpose(0, 1)
    assert torch.equal(stable_argsort(scores), scores.argsort(dim=-1, descending=True, stable=True))


@pytest.mark.parametrize("shape", [(5,), (2, 7), (2, 3, 4)])
def test_an_order_is_undone_by_its_inverse(shape):
    scores = torch.randn(shape)
    order = stable_argsort(scores)
    sorted_scores = scores.gather(-1, order)
    assert torch.equal(sorted_scores.gather(-1, invert(order)), scores)
