"""The synthetic set behaves as any other benchmark, without a folder."""

import numpy as np
import pytest

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.dataset import PairDataset
from mambamatcher.datasets.image_cache import read_image
from mambamatcher.datasets.records import fingerprint
from mambamatcher.datasets.transforms import Augmentation
from mambamatcher.datasets.verify import verify
from mambamatcher.errors import InputError


@pytest.fixture(scope="module")
def pairs():
    return read_pairs("synthetic", "val").pairs


def test_pairs_are_rendered_alike_every_time(pairs):
    assert pairs[3] == pairs[3]
    assert fingerprint(pairs[:2]) == fingerprint(read_pairs("synthetic", "val").pairs[:2])
    assert fingerprint(pairs[:2]) != fingerprint(read_pairs("synthetic", "test").pairs[:2])
    assert fingerprint(pairs[:20]) != fingerprint(pairs[:21])


def test_rendered_images_reach_the_dataset_with_their_keypoints(pairs):
    pair = pairs[0]
    assert len(pair.names) >= 3
    assert np.array(read_image(pair.source)).std() > 0
    sample = PairDataset(pairs, 64, Augmentation(flip=0.5))[0]
    assert sample.source_image.shape == (3, 64, 64)
    assert (sample.source_points.abs() <= 1).all()


def test_there_is_nothing_to_verify():
    with pytest.raises(InputError, match="rendered"):
        verify("synthetic")
