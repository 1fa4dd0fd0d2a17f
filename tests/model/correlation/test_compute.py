import numpy as np
import torch
from torch.testing import assert_close

from mambamatcher.model.correlation import correlation_map
from mambamatcher.model.correlation.similarity_scan import SORT_KEYS


def features(*grid: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 3, 7, *grid, generator=torch.Generator().manual_seed(seed))


def test_each_entry_is_the_cosine_of_the_two_positions():
    source, target = features(2, 3), features(4, 5, seed=1)
    correlation = correlation_map(source, target).numpy()
    assert correlation.shape == (2, 3, 2, 3, 4, 5)
    for b, level, i, j, k, l in np.ndindex(*correlation.shape):  # noqa: E741
        a, c = source[b, level, :, i, j].numpy(), target[b, level, :, k, l].numpy()
        cosine = a @ c / np.linalg.norm(a) / np.linalg.norm(c)
        assert abs(correlation[b, level, i, j, k, l] - cosine) < 1e-6


def test_scaling_a_feature_changes_nothing():
    source, target = features(2, 3), features(4, 5, seed=1)
    assert_close(correlation_map(1000 * source, target / 50), correlation_map(source, target))


def test_positions_without_features_are_similar_to_nothing_and_pass_no_nan_back():
    source = torch.zeros(1, 2, 4, 2, 3, requires_grad=True)
    correlation = correlation_map(source, features(4, 5)[:1, :2, :4])
    assert (correlation == 0).all()
    correlation.sum().backward()
    assert source.grad is not None
    assert source.grad.isfinite().all()


def test_filling_narrow_levels_up_with_zeros_changes_no_cosine():
    source, target = features(2, 3), features(4, 5, seed=1)
    padded = [torch.cat([x, torch.zeros(2, 3, 5, *x.shape[-2:])], dim=2) for x in (source, target)]
    assert_close(correlation_map(*padded), correlation_map(source, target))


def test_stays_in_float32_under_autocast():
    source, target = features(2, 3), features(4, 5, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = correlation_map(source, target)
    assert inside.dtype == torch.float32
    assert_close(inside, correlation_map(source, target))


def test_sort_keys_read_the_levels_they_name():
    sequence = torch.tensor([[[1.0, 2.0, 6.0], [3.0, 5.0, 4.0]]])
    assert SORT_KEYS["last"](sequence).tolist() == [[6.0, 4.0]]
    assert SORT_KEYS["penultimate"](sequence).tolist() == [[2.0, 5.0]]
    assert SORT_KEYS["mean"](sequence).tolist() == [[3.0, 4.0]]
    for key in SORT_KEYS.values():  # a single level is a legal choice
        assert key(sequence[..., :1]).tolist() == [[1.0, 3.0]]
