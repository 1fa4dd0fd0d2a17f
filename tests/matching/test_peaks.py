from dataclasses import replace

import numpy as np
import pytest

from mambamatcher.matching.peaks import separate_peaks
from mambamatcher.matching.transfer import dense_transfer
from mambamatcher.model.frames import grid_centres
from mambamatcher.model.transfer_settings import SHARP

GRID = (12, 16)


def bumps(*places: tuple[float, float, float], width: float = 0.15) -> np.ndarray:
    """Scores with a smooth bump of each given (x, y, height) in the unit frame."""
    centres = grid_centres(GRID)
    rows = [
        height * np.exp(-np.square(centres - np.array([x, y], np.float32)).sum(axis=1) / (2 * width**2))
        for x, y, height in places
    ]
    return np.stack(rows).max(axis=0).reshape(1, *GRID)


def test_each_bump_is_found_once_finer_than_the_grid_and_nothing_else():
    places = [(0.53, -0.41, 1.0), (-0.48, 0.33, 0.9)]
    peaks = separate_peaks(bumps(*places), 4, replace(SHARP, temperature=12.0))
    np.testing.assert_array_equal(peaks.present, [[True, True, False, False]])
    for index, (x, y, _) in enumerate(places):
        truth = np.array([x, y])
        nearest_centre = np.linalg.norm(grid_centres(GRID) - truth, axis=1).min()
        assert np.linalg.norm(peaks.points[0, index] - truth) < 0.8 * nearest_centre
    assert peaks.height[0, 0] > peaks.height[0, 1]


def test_a_second_peak_is_read_where_it_is_even_on_the_flank_of_a_higher_one():
    scores = bumps((0.0, 0.0, 1.0), (0.45, 0.0, 0.6), width=0.2)
    second = separate_peaks(scores, 2, replace(SHARP, temperature=30.0)).points[0, 1]
    assert second[0] == pytest.approx(0.45, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_peaks_are_those_a_greedy_search_over_local_maxima_finds(seed):
    scores = np.random.default_rng(seed).random((3, *GRID), dtype=np.float32)
    centres = grid_centres(GRID)
    peaks = separate_peaks(scores, 5, replace(SHARP, readout="argmax"), radius=0.4)
    for row, found, present in zip(scores, peaks.points, peaks.present, strict=True):
        expected: list[np.ndarray] = []
        for flat in np.argsort(-row, axis=None):
            y, x = divmod(int(flat), GRID[1])
            around = row[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
            far = all(np.linalg.norm(centres[flat] - other) > 0.4 for other in expected)
            if row[y, x] == around.max() and far:
                expected.append(centres[flat])
        np.testing.assert_allclose(found[present], expected[:5], atol=1e-6)
        assert present.sum() == min(5, len(expected))


def test_the_first_peak_of_a_mean_shift_is_where_it_reads_the_match():
    scores = np.random.default_rng(5).random((20, *GRID), dtype=np.float32)
    settings = replace(SHARP, readout="mean_shift", sigma=0.12, temperature=6.0)
    peaks = separate_peaks(scores, 2, settings)
    match = dense_transfer(scores.reshape(20, 1, *GRID), settings)
    assert np.linalg.norm(peaks.points[:, 0] - match, axis=1).max() < 0.1
    assert np.linalg.norm(peaks.points[:, 1] - match, axis=1).min() > 0.1
