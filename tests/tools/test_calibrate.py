import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.errors import InputError
from mambamatcher.matching.confidence import load_calibration
from mambamatcher.matching.matcher import Matcher
from mambamatcher.matching.result import MatchResult
from mambamatcher.tools.calibrate import calibrate, cross_fitted, gather_examples
from tests.datasets import releases


class Known(Matcher):
    """Finds the points of the small benchmark, every third one far off, and says so in its evidence."""

    def __init__(self) -> None:
        self.asked = 0

    def match(self, source, target, points, **options) -> MatchResult:
        points = np.asarray(points)
        number = self.asked + np.arange(len(points))
        self.asked += len(points)
        right = number % 3 != 0
        noise = np.random.default_rng(self.asked).normal(0, 0.5, len(points))
        evidence = np.column_stack(
            [3 + right + noise, np.full(len(points), 0.5), 0.5 * right, np.full(len(points), 3.0), noise, noise]
        )
        return MatchResult(
            source_points=points,
            points=points + np.where(right, 2.0, 40.0)[:, None],
            confidence=np.zeros(len(points)),
            matched=np.zeros(len(points), dtype=bool),
            presence=np.zeros(len(points)),
            source=source,
            target=target,
            heatmaps=np.zeros((len(points), 1, 1)),
            evidence=evidence,
        )


@pytest.fixture
def pairs(tmp_path):
    """Twelve pairs of four keypoints; the target shows the first three of them."""
    annotations = [
        releases.spair_annotation(
            f"{number:06d}-a{number}-b{number}:cat",
            src_imname=f"a{number}.jpg",
            trg_imname=f"b{number}.jpg",
            kps_ids=["a", "b", "c", "d"],
            src_kps=[[10, 11], [20, 21], [30, 31], [5, 6]],
            trg_kps=[[12, 13], [22, 23], [32, 33], None],
        )
        for number in range(12)
    ]
    releases.write_spair(tmp_path, annotations)
    return read_pairs("spair", "test", tmp_path).pairs


def test_keypoints_the_target_does_not_show_are_matched_too_and_always_wrong(pairs):
    examples = gather_examples(Known(), pairs, "bbox")
    assert len(examples.correct) == 48
    assert (~examples.present).sum() == 12
    assert not examples.correct[~examples.present].any()
    number = np.arange(48)
    np.testing.assert_array_equal(examples.correct, examples.present & (number % 3 != 0))
    np.testing.assert_array_equal(examples.pair, number // 4)


def test_a_match_is_judged_by_calibrations_that_have_not_seen_its_photos(pairs):
    examples = gather_examples(Known(), pairs, "bbox")
    before, _ = cross_fitted(examples)
    examples.correct[0] = not examples.correct[0]
    changed = before != cross_fitted(examples)[0]
    shares_photo = np.isin(examples.photos, examples.photos[0]).any(axis=1)
    assert shares_photo.sum() >= 4
    assert not changed[shares_photo].any()
    assert changed.any()


def test_pairs_that_all_share_a_photo_cannot_measure_a_calibration(pairs):
    examples = replace(gather_examples(Known(), pairs, "bbox"), photos=np.tile([0, 1], (48, 1)))
    with pytest.raises(InputError, match="pairs of more photos"):
        cross_fitted(examples)


def test_calibrating_writes_what_a_model_reads_with_a_report_and_curves(pairs, tmp_path):
    report = calibrate(Known(), pairs, "bbox", tmp_path / "model")
    calibration = load_calibration(tmp_path / "model")
    assert calibration.agreement > 0
    assert json.loads((tmp_path / "model" / "calibration-report.json").read_text()) == report
    assert report["points_absent_in_target"] == 12
    assert report["share_correct"] == pytest.approx(24 / 48)
    assert report["risk_at_coverage"]["1"] == pytest.approx(0.5)
    assert report["risk_at_coverage"]["0.25"] < 0.5
    for name in ("reliability.png", "risk-coverage.png"):
        assert min(Image.open(tmp_path / "model" / name).size) > 300
    with pytest.raises(InputError, match="exists already"):
        calibrate(Known(), pairs, "bbox", tmp_path / "model")
    with pytest.raises(InputError, match="at least two pairs"):
        calibrate(Known(), pairs[:1], "bbox", tmp_path / "other")
