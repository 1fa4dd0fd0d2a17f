"""The real releases beside the repository, where they are present."""

import numpy as np
import pytest
from scipy.io import loadmat

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.sampling import by_category, sharing_pairs
from mambamatcher.datasets.voc_keypoints import FOLDERS, photo, read_images, voc_pairs
from tests.datasets.releases import SHARED

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the real data is not beside the repository")


def test_360_spair_validation_pairs_are_read():
    pairs = read_pairs("spair", "val", SHARED).pairs
    assert len(pairs) == 360
    assert len({pair.category for pair in pairs}) == 18
    assert all(pair.variation == {} for pair in pairs)


def test_308_pf_pascal_validation_pairs_have_the_keypoints_of_the_mat_files():
    pairs = read_pairs("pf-pascal", "val", SHARED).pairs
    assert len(pairs) == 308
    for pair in pairs:
        folder = SHARED / "PF-PASCAL" / "Annotations" / pair.category
        given = [loadmat(folder / f"{image.path.stem}.mat")["kps"] for image in (pair.source, pair.target)]
        both = np.isfinite(given[0]).all(axis=1) & np.isfinite(given[1]).all(axis=1)
        for points, keypoints in zip(pair.points(), given, strict=True):
            np.testing.assert_array_equal(points, keypoints[both])


def test_pf_pascal_training_lists_have_their_official_length():
    pairs = read_pairs("pf-pascal", "trn", SHARED, check_images=False).pairs
    assert len(pairs) == 2940
    assert sum(pair.source.flip for pair in pairs) == 1470
    assert len(read_pairs("pf-pascal", "trn-noleak", SHARED, check_images=False).pairs) == 768


def test_voc_folders_hold_what_their_readme_says():
    images = read_images(SHARED / "VOC2011-keypoints", Faults())
    assert len(images) == 2618
    assert len(read_images(SHARED / "VOC2011-instances", Faults())) == 3685
    ordered = sum(len(sharing_pairs(group, lambda image: image.path.name)) for group in by_category(images).values())
    assert ordered == pytest.approx(329_000, rel=0.01)


def test_selection_split_has_enough_pairs_and_nothing_of_it_is_trained_on():
    selection = read_pairs("voc", "selection", SHARED, check_images=False).pairs
    assert len(selection) >= 5_000
    assert len({pair.name for pair in selection}) == len(selection)
    assert len({pair.category for pair in selection}) == 20
    trained = voc_pairs([SHARED / name for name in FOLDERS], "trn", Faults(), count=10_000)
    held, seen = (
        {photo(image.path) for pair in pairs for image in (pair.source, pair.target)} for pairs in (selection, trained)
    )
    assert not held & seen
    assert len(held) / len(held | seen) == pytest.approx(0.1, abs=0.02)
