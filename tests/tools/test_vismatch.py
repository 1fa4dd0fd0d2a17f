"""The shape that vismatch documents for its matchers, checked without it."""

import numpy as np
import pytest
import torch

from mambamatcher import Matcher
from mambamatcher.matching.confidence import Calibration
from mambamatcher.tools.vismatch import VismatchMatcher
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
    assert result["H"] is None


def test_an_enlarged_image_matches_everywhere(adapter):
    small, large = tensor(120, 90), torch.nn.functional.interpolate(tensor(120, 90)[None], scale_factor=2)[0]
    result = adapter(small, large[None])  # a batch of one is accepted too
    assert len(result["matched_kpts0"]) > 300
    error = np.abs(result["matched_kpts1"] / 2 - result["matched_kpts0"])
    assert np.median(error / [120 / 30, 90 / 30]) <= 0.5  # within half a cell of the 30x30 grid


def test_the_number_of_matches_can_be_limited(adapter):
    limited = VismatchMatcher(matcher=adapter.matcher, max_num_keypoints=10)
    result = limited(tensor(120, 90), tensor(120, 90))
    assert len(result["matched_kpts0"]) == result["num_inliers"] == 10


def test_files_are_loaded_as_tensors_and_single_images_described(adapter, tmp_path):
    picture(60, 40).save(tmp_path / "a.png")
    loaded = VismatchMatcher.load_image(tmp_path / "a.png", resize=(50, 70))
    assert loaded.shape == (3, 50, 70)
    assert 0 <= loaded.min() <= loaded.max() <= 1
    extracted = adapter.extract(tmp_path / "a.png")
    assert set(extracted) == {"all_kpts0", "all_desc0"}
    assert len(extracted["all_kpts0"]) == 30 * 30
