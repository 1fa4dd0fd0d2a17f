import numpy as np
import pytest
from scipy import ndimage

from mambamatcher.matching.foreground import find_foreground, otsu_threshold, spread_points
from mambamatcher.matching.regions import erode, fill_holes, largest_region, smooth


def scene(object_at: tuple[slice, slice], grid: tuple[int, int] = (12, 15)) -> np.ndarray:
    """Features of an object on two kinds of background, with some noise."""
    features = np.zeros((2, 8, *grid), dtype=np.float32)
    features[:, 0] = 1.0
    features[:, :2, grid[0] // 2 :] = np.array([0.0, 1.0])[:, None, None]
    features[:, :3, object_at[0], object_at[1]] = np.array([0.0, 0.0, 1.0])[:, None, None]
    return features + np.float32(0.05) * np.random.default_rng(0).standard_normal(features.shape, dtype=np.float32)


def test_the_foreground_is_the_object_less_its_rim_whatever_the_background():
    expected = np.zeros((12, 15), dtype=bool)
    expected[4:9, 6:11] = True
    np.testing.assert_array_equal(find_foreground(scene((slice(3, 10), slice(5, 12)))), expected)


def test_a_picture_without_any_object_still_has_a_foreground():
    noise = np.random.default_rng(0).standard_normal((2, 4, 3, 3), dtype=np.float32)
    for features in (np.zeros((2, 4, 6, 6), np.float32), np.ones((1, 4, 5, 7), np.float32), noise):
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


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (9, 14), (25, 25)])
@pytest.mark.parametrize("density", [0.3, 0.5, 0.7])
def test_operations_on_masks_are_those_of_scipy(shape, density):
    rng = np.random.default_rng(int(100 * density))
    values = rng.random(shape)
    np.testing.assert_allclose(smooth(values, 0.7), ndimage.gaussian_filter(values, 0.7), atol=1e-12)
    for _ in range(10):
        mask = rng.random(shape) < density
        np.testing.assert_array_equal(erode(mask), ndimage.binary_erosion(mask, border_value=1))
        np.testing.assert_array_equal(fill_holes(mask), ndimage.binary_fill_holes(mask))
        labels, count = ndimage.label(mask, structure=np.ones((3, 3)))
        if count:
            largest = labels == 1 + np.argmax(np.bincount(labels.ravel())[1:])
            np.testing.assert_array_equal(largest_region(mask), ndimage.binary_fill_holes(largest))
