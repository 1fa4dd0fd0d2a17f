import numpy as np
import torch

from mambamatcher.matching.foreground import find_foreground, otsu_threshold, spread_points


def scene(object_at: tuple[slice, slice], grid: tuple[int, int] = (12, 15)) -> torch.Tensor:
    """Features of an object on two kinds of background, with some noise."""
    torch.manual_seed(0)
    features = torch.zeros(1, 2, 8, *grid)
    features[:, :, 0] = 1.0
    features[:, :, :2, grid[0] // 2 :] = torch.tensor([0.0, 1.0])[:, None, None]
    features[:, :, :3, object_at[0], object_at[1]] = torch.tensor([0.0, 0.0, 1.0])[:, None, None]
    return features + 0.05 * torch.randn_like(features)


def test_the_foreground_is_the_object_less_its_rim_whatever_the_background():
    expected = np.zeros((12, 15), dtype=bool)
    expected[4:9, 6:11] = True
    np.testing.assert_array_equal(find_foreground(scene((slice(3, 10), slice(5, 12)))), expected)


def test_a_picture_without_any_object_still_has_a_foreground():
    torch.manual_seed(0)
    for features in (torch.zeros(1, 2, 4, 6, 6), torch.ones(1, 1, 4, 5, 7), torch.randn(1, 2, 4, 3, 3)):
        assert find_foreground(features).any()


def test_otsu_splits_two_groups_between_them():
    values = np.array([[0.1, 0.2, 0.15], [0.9, 0.8, 0.12]])
    assert otsu_threshold(values) == 0.8


def test_points_are_spread_over_the_whole_mask_and_lie_in_it():
    mask = np.zeros((10, 20), dtype=bool)
    mask[2:8, 4:16] = True
    points = spread_points(mask, 8)
    assert len(np.unique(points, axis=0)) == 8
    columns, rows = ((points[:, 0] + 1) * 10).astype(int), ((points[:, 1] + 1) * 5).astype(int)
    assert mask[rows, columns].all()
    nearest = np.sort(np.linalg.norm(points[:, None] - points[None], axis=-1), axis=1)[:, 1]
    assert nearest.min() > 0.25  # eight equal shares of 1.2 x 1.2 would be 0.42 apart
    # every place of the mask has a point near
    places = np.argwhere(mask)[:, ::-1] / [10, 5] - 1 + [0.05, 0.1]
    assert np.linalg.norm(places[:, None] - points[None], axis=-1).min(axis=1).max() < 0.45


def test_a_small_mask_gives_no_more_points_than_it_has_positions():
    mask = np.zeros((4, 4), dtype=bool)
    mask[1, 1:3] = True
    assert len(spread_points(mask, 12)) == 2
