"""Transfer in NumPy finds what transfer in PyTorch finds, for every setting."""

from itertools import product

import numpy as np
import pytest
import torch

from mambamatcher.matching.scores import WholeMap
from mambamatcher.matching.transfer import dense_transfer, matching_probability, read_out, soft_sampler
from mambamatcher.model import frames, geometry, transfer
from mambamatcher.model.transfer_settings import Transfer

GRIDS = (4, 5, 6, 7)  # all differ, so that a swapped axis fails
SETTINGS = [
    Transfer(scores=scores, blend=blend, readout=readout, radius=radius, temperature=temperature)
    for scores, blend, readout, radius, temperature in product(
        ("printed", "shifted"),
        ("points", "scores"),
        ("kernel_soft_argmax", "mean_shift", "argmax"),
        (0.05, 0.7),
        (1.0, 30.0),
    )
]


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_both_read_the_same_from_random_maps(settings):
    rng = np.random.default_rng(0)
    refined = rng.standard_normal(GRIDS, dtype=np.float32)
    points = rng.uniform(-1, 1, (9, 2)).astype(np.float32)
    for map_, grids in ((WholeMap(refined), GRIDS), (WholeMap(refined).transposed(), (*GRIDS[2:], *GRIDS[:2]))):
        tensor = torch.from_numpy(np.ascontiguousarray(map_.whole()))[None]
        assert tensor.shape == (1, *grids)
        expected = transfer.read_out(tensor, torch.from_numpy(points)[None], settings)
        for one, other in zip(read_out(map_, points, settings), expected, strict=True):
            np.testing.assert_allclose(one, other[0], atol=2e-5)
        dense = transfer.dense_transfer(tensor, settings)[0]
        np.testing.assert_allclose(dense_transfer(map_.whole(), settings), dense, atol=2e-5)


@pytest.mark.parametrize("radius", [0.01, 0.3, 1.0])
def test_both_sample_the_same_positions(radius):
    points = np.random.default_rng(1).uniform(-1, 1, (20, 2)).astype(np.float32)
    expected = transfer.soft_sampler(torch.from_numpy(points)[None], (3, 8), radius)[0]
    np.testing.assert_allclose(soft_sampler(points, (3, 8), radius), expected, atol=1e-5)


def test_scores_of_any_size_have_a_distribution():
    rows = np.array([[1e30, -1e30, 0.0, 1.0]], dtype=np.float32)
    with np.errstate(over="ignore"):
        probability = matching_probability(rows, (2, 2), Transfer(scores="shifted", temperature=20.0))
    np.testing.assert_allclose(probability, [[1, 0, 0, 0]], atol=1e-6)


def test_frames_are_the_same_for_arrays_and_tensors():
    points = np.random.default_rng(2).uniform(0, 30, (5, 2)).astype(np.float32)
    tensor = torch.from_numpy(points)
    np.testing.assert_allclose(frames.pixels_to_unit(points, (30, 41)), geometry.pixels_to_unit(tensor, (30, 41)))
    np.testing.assert_allclose(frames.unit_to_pixels(points, (30, 41)), geometry.unit_to_pixels(tensor, (30, 41)))
    np.testing.assert_array_equal(frames.grid_centres((3, 7)), geometry.grid_centres((3, 7)))
    np.testing.assert_array_equal(frames.axis_centres(25), geometry.axis_centres(25))
