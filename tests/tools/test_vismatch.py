"""The shape that vismatch documents for its matchers, checked without it."""

import numpy as np
import pytest
import torch

from mambamatcher import Matcher
from mambamatcher.matching.confidence import Calibration
from mambamatcher.tools.vismatch import VismatchMatcher, fit_homography
from tests.tools.conftest import picture

KEYS = {
    "num_inliers",
    "H",
    "all_kpts0",
    "all_kpts1",
    "all_desc0",
    "all_desc1",
    "matched_kpts0",
    "matched_kpts1",
    "inlier_kpts0",
    "inlier_kpts1",
}


@pytest.fixture(scope="module")
def adapter() -> VismatchMatcher:
    everything = Calibration(bias=10.0)  # whatever is mutual counts as matched
    return VismatchMatcher(matcher=Matcher.from_preset("nearest", calibration=everything))


def tensor(width: int, height: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.array(picture(width, height, seed))).permute(2, 0, 1) / 255.0


def test_the_result_has_the_documented_keys_shapes_and_types(adapter):
    result = adapter(tensor(90, 60), tensor(120, 80, 1))
    assert set(result) == KEYS
    for number, size in ((0, (90, 60)), (1, (120, 80))):
        for key in (f"all_kpts{number}", f"matched_kpts{number}", f"inlier_kpts{number}"):
            points = result[key]
            assert points.dtype == np.float32
            assert points.ndim == 2
            assert points.shape[1] == 2
            assert ((points >= 0) & (points < size)).all()
        assert len(result[f"all_desc{number}"]) == len(result[f"all_kpts{number}"])
        np.testing.assert_allclose(np.linalg.norm(result[f"all_desc{number}"], axis=1), 1, atol=1e-4)
    assert len(result["matched_kpts0"]) == len(result["matched_kpts1"])
    assert result["num_inliers"] == len(result["inlier_kpts0"]) == len(result["inlier_kpts1"])
    assert result["H"] is None or result["H"].shape == (3, 3)


def test_an_enlarged_picture_matches_everywhere_and_its_homography_is_the_enlargement(adapter):
    small, large = tensor(120, 90), torch.nn.functional.interpolate(tensor(120, 90)[None], scale_factor=2)[0]
    result = adapter(small, large[None])  # a batch of one is taken too
    assert len(result["matched_kpts0"]) > 300
    assert result["num_inliers"] > 250
    np.testing.assert_allclose(result["H"][:2, :2], [[2, 0], [0, 2]], atol=0.1)


def test_fewer_points_can_be_asked_for_and_the_homography_left_out(adapter):
    limited = VismatchMatcher(matcher=adapter.matcher, max_num_keypoints=10)
    limited.skip_ransac = True
    result = limited(tensor(120, 90), tensor(120, 90))
    assert len(result["matched_kpts0"]) == 10
    assert result["H"] is None
    assert result["num_inliers"] == 0


def test_files_are_loaded_as_tensors_and_single_images_described(adapter, tmp_path):
    picture(60, 40).save(tmp_path / "a.png")
    loaded = VismatchMatcher.load_image(tmp_path / "a.png", resize=(50, 70))
    assert loaded.shape == (3, 50, 70)
    assert 0 <= loaded.min() <= loaded.max() <= 1
    extracted = adapter.extract(tmp_path / "a.png")
    assert set(extracted) == {"all_kpts0", "all_desc0"}
    assert len(extracted["all_kpts0"]) == 30 * 30


def test_a_homography_is_found_among_wrong_matches():
    rng = np.random.default_rng(0)
    truth = np.array([[1.1, 0.1, 5.0], [-0.05, 0.9, -3.0], [2e-4, -1e-4, 1.0]])
    points = rng.uniform(0, 300, (100, 2))
    projected = np.column_stack([points, np.ones(100)]) @ truth.T
    moved = projected[:, :2] / projected[:, 2:]
    wrong = np.arange(100) < 40
    moved[wrong] = rng.uniform(0, 300, (40, 2))
    found, inliers = fit_homography(points, moved, 1.0, 2000)
    np.testing.assert_allclose(found, truth, atol=1e-3)
    assert inliers[~wrong].all()
    assert inliers[wrong].sum() <= 1


def test_without_four_matches_that_fit_there_is_no_homography():
    rng = np.random.default_rng(1)
    for count in (0, 3):
        found, inliers = fit_homography(rng.random((count, 2)), rng.random((count, 2)), 3.0, 50)
        assert found is None
        assert len(inliers) == count
