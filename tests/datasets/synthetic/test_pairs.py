import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import binary_dilation

from mambamatcher.datasets.synthetic import CATEGORIES, SyntheticPair, SyntheticPairs, SyntheticView, sample_pair
from mambamatcher.datasets.synthetic.render import render
from mambamatcher.errors import ConfigError, InputError
from tests.datasets.synthetic.scenes import SIZE, some_pairs, typical

_DIGEST = """
from tests.datasets.synthetic.test_pairs import digest
from mambamatcher.datasets.synthetic import SyntheticPairs
print(digest(SyntheticPairs(9, seed=5, size=(96, 64))[7]))
"""


def digest(pair: SyntheticPair) -> str:
    total = hashlib.sha256()
    for view in (pair.source, pair.target):
        for array in (view.image, view.mask, view.keypoints, view.visible, view.buffer.surface):
            total.update(np.ascontiguousarray(array).tobytes())
    total.update(pair.correspondence.positions.tobytes())
    return total.hexdigest()


def on_or_beside(mask: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Say which points lie on a mask or within a pixel of it."""
    grown = binary_dilation(mask, np.ones((3, 3)))
    columns, rows = np.floor(points).astype(int).T
    return grown[rows, columns]


def assert_consistent(view: SyntheticView) -> None:
    width, height = view.size
    seen = view.keypoints[view.visible]
    assert ((seen >= 0) & (seen < [width, height])).all()
    assert on_or_beside(view.mask, seen).all()
    x1, y1, x2, y2 = view.bbox
    rows, columns = np.nonzero(view.mask)
    assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (x1, y1, x2, y2)
    assert len(view.keypoint_names) == len(view.keypoints) == len(view.visible)


def test_a_pair_depends_on_seed_and_index_only():
    forward = SyntheticPairs(6, seed=3, size=SIZE)
    backward = SyntheticPairs(60, seed=3, size=SIZE)
    ahead = [digest(forward[index]) for index in range(6)]
    assert ahead == [digest(backward[index]) for index in reversed(range(6))][::-1]
    assert len(set(ahead)) == 6
    assert digest(SyntheticPairs(6, seed=4, size=SIZE)[0]) not in ahead


@pytest.mark.parametrize("threads", ["1", "2"])
def test_another_process_renders_the_same_bytes_with_any_number_of_threads(threads: str):
    environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    command = [sys.executable, "-c", _DIGEST]
    child = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert child.stdout.strip() == digest(SyntheticPairs(9, seed=5, size=(96, 64))[7])


def test_negative_indices_count_from_the_end_and_iteration_stops():
    pairs = SyntheticPairs(3, size=(64, 64))
    assert digest(pairs[-1]) == digest(pairs[2])
    assert len(list(pairs)) == len(pairs) == 3


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), index=st.integers(0, 999))
def test_any_pair_is_consistent(seed: int, index: int):
    pair = SyntheticPairs(1000, seed=seed, size=(96, 80))[index]
    assert_consistent(pair.source)
    assert_consistent(pair.target)
    assert pair.source.image.shape == (80, 96, 3)
    assert pair.source.category == pair.target.category
    assert pair.shared.sum() >= 3


def test_the_set_varies_in_all_that_makes_pairs_hard():
    pairs = some_pairs()
    assert {pair.category for pair in pairs} == set(CATEGORIES)
    assert {pair.mirrored for pair in pairs} == {True, False}
    assert {pair.source.occluded for pair in pairs} == {True, False}
    assert {pair.source.truncated for pair in pairs} == {True, False}


def test_named_categories_are_the_only_ones():
    assert {pair.category for pair in SyntheticPairs(8, size=(48, 48), categories=["car", "cat"])} == {"car", "cat"}


def test_supersampling_keeps_the_geometry():
    coarse, fine = (render(typical("dog", 40.0), (64, 48), factor) for factor in (1, 3))
    assert np.abs(coarse.keypoints - fine.keypoints).max() < 1e-9
    assert (coarse.mask != fine.mask).mean() < 0.002
    assert (coarse.image != fine.image).any()


def test_the_sample_pair_shows_many_shared_keypoints():
    pair = sample_pair()
    assert pair.source.size == pair.target.size == (480, 480)
    assert pair.shared.sum() >= 8
    assert_consistent(pair.source)
    assert_consistent(pair.target)


@pytest.mark.parametrize("index", [3, -4, 10**9])
def test_an_index_beyond_the_end_is_an_index_error(index: int):
    with pytest.raises(IndexError, match="of a synthetic set of 3"):
        SyntheticPairs(3)[index]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": (0, 64)}, "sides from 32"),
        ({"size": (64, 10_000)}, "sides from 32"),
        ({"seed": -1}, "seed must lie in"),
        ({"seed": 2**64}, "seed must lie in"),
        ({"length": -1}, "must not be negative"),
        ({"categories": []}, "no categories"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        SyntheticPairs(**settings)


def test_an_unknown_category_suggests_a_known_one():
    with pytest.raises(ConfigError, match="Did you mean 'chair'"):
        SyntheticPairs(categories=["chiar"])
