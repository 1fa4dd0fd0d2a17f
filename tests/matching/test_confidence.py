import json
from math import exp, log

import numpy as np
import pytest

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.matching.confidence import (
    Calibration,
    LogisticModel,
    fit_calibration,
    gather_evidence,
    load_calibration,
    reliability,
    return_agreement,
    risk_coverage,
    roc_area,
    save_calibration,
    separating_threshold,
)
from mambamatcher.matching.scores import WholeMap
from mambamatcher.matching.transfer import dense_transfer, read_out, soft_sampler
from mambamatcher.model.frames import grid_centres
from mambamatcher.model.transfer_settings import Transfer

NEAREST = Transfer(readout="argmax")


def one_way_map(best: list[int], source: tuple[int, int], target: tuple[int, int]) -> np.ndarray:
    """A map in which each source position has one best target position, later ones a little better."""
    rows = np.zeros((source[0] * source[1], target[0] * target[1]), dtype=np.float32)
    for index, place in enumerate(best):
        rows[index, place] = 1.0 + 0.01 * index
    return rows.reshape(*source, *target)


def test_matches_that_return_agree_wholly_and_others_by_how_far_they_miss():
    refined = one_way_map([0, 1, 1, 2], (1, 4), (1, 3))
    found = dense_transfer(refined, NEAREST)
    agreement = return_agreement(WholeMap(refined).transposed(), grid_centres((1, 4)), found, NEAREST)
    # position 1 is sent to target 1, which prefers position 2, half the unit frame away from it
    np.testing.assert_allclose(agreement, [1.0, exp(-0.5 / 0.2), 1.0, 1.0], rtol=1e-5)


def test_evidence_is_what_a_loop_over_the_scores_finds():
    rng = np.random.default_rng(1)
    refined, points = rng.random((4, 3, 5, 2), dtype=np.float32), rng.random((7, 2), dtype=np.float32) * 2 - 1
    scores = read_out(WholeMap(refined), points, Transfer()).scores
    found = rng.uniform(-1, 1, (7, 2))
    evidence = gather_evidence(scores, scores.max(axis=(1, 2)), np.full(7, 0.3), 5.0, found)
    weights = soft_sampler(points, (4, 3), 0.05)
    for index in range(7):
        row = sum(float(w) * refined.reshape(12, 10)[i].astype(np.float64) for i, w in enumerate(weights[index]))
        shares = [exp(5.0 * value) for value in row]
        shares = [share / sum(shares) for share in shares]
        entropy = -sum(share * log(share) for share in shares) / log(10)
        peak = (max(row) - row.mean()) / row.std(ddof=1)
        energy = log(sum(exp(5.0 * value) for value in row))
        x, y = found[index]
        border = min(1 - x, 1 + x, 1 - y, 1 + y)
        expected = [peak, entropy, 0.3, energy, 5.0 * max(row), border]
        np.testing.assert_allclose(evidence[index], expected, rtol=1e-4)


def test_rows_without_any_difference_have_finite_evidence():
    flat = np.zeros((2, 3, 3))
    evidence = gather_evidence(flat, np.zeros(2), np.ones(2), 50.0, np.zeros((2, 2)))
    np.testing.assert_allclose(evidence, [[0, 1, 1, log(9), 0, 1]] * 2, atol=1e-6)


WEIGHTS = {"bias": -3.0, "peak": 0.7, "entropy": -1.5, "agreement": 2.0, "energy": 0.2, "height": 0.1, "border": 0.5}


def known_evidence(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    spread = [(4, 1), (0.5, 0.3), (0.5, 0.3), (0, 2), (1, 3), (0.5, 0.3)]
    return np.column_stack([rng.normal(mean, deviation, count) for mean, deviation in spread])


def test_fitting_recovers_the_models_that_made_right_and_present_matches():
    truth = Calibration(**WEIGHTS, presence=LogisticModel(**WEIGHTS | {"bias": -1.0, "peak": 0.3, "border": 1.0}))
    evidence, rng = known_evidence(60_000), np.random.default_rng(1)
    correct = rng.uniform(size=60_000) < truth.probability(evidence)
    present = rng.uniform(size=60_000) < truth.presence_probability(evidence)
    fitted = fit_calibration(evidence, correct, present)
    for name, weight in WEIGHTS.items():
        assert getattr(fitted, name) == pytest.approx(weight, abs=0.15)
        assert getattr(fitted.presence, name) == pytest.approx(getattr(truth.presence, name), abs=0.15)
    assert reliability(fitted.probability(evidence), correct).expected_error < 0.01
    assert reliability(fitted.presence_probability(evidence), present).expected_error < 0.01
    overconfident = Calibration(**WEIGHTS | {"bias": -1.0})
    assert reliability(overconfident.probability(evidence), correct).expected_error > 0.2


def test_where_every_point_is_present_its_probability_is_that_of_being_right():
    evidence = known_evidence(200)
    correct = np.random.default_rng(2).uniform(size=200) < 0.5
    fitted = fit_calibration(evidence, correct, np.ones(200, dtype=bool))
    assert fitted.presence is None
    np.testing.assert_array_equal(fitted.presence_probability(evidence), fitted.probability(evidence))


def test_perfectly_separable_matches_are_fitted_with_finite_numbers():
    evidence = np.array([[1.0, 0.5, 0.0], [2.0, 0.5, 0.0], [5.0, 0.5, 1.0], [6.0, 0.5, 1.0]])
    evidence = np.column_stack([evidence, np.full((4, 3), 2.0)])
    correct = np.array([False, False, True, True])
    fitted = fit_calibration(evidence, correct, correct)
    probability = fitted.probability(evidence)
    assert np.isfinite([fitted.bias, fitted.peak, fitted.entropy, fitted.agreement]).all()
    assert probability[1] < fitted.threshold <= probability[2]


@pytest.mark.parametrize("kind", [True, False])
def test_matches_of_one_kind_only_cannot_be_fitted(kind):
    with pytest.raises(InputError, match="needs both kinds"):
        fit_calibration(np.ones((3, 6)), np.full(3, kind), np.ones(3, dtype=bool))


@pytest.mark.parametrize("seed", range(5))
def test_the_area_under_the_curve_counts_pairs_in_the_right_order(seed):
    rng = np.random.default_rng(seed)
    probability, positive = rng.integers(0, 8, 40) / 8, rng.random(40) < 0.4
    wins = [(p > n) + (p == n) / 2 for p in probability[positive] for n in probability[~positive]]
    assert roc_area(probability, positive) == pytest.approx(np.mean(wins))
    assert roc_area(probability, np.ones(40, dtype=bool)) is None


def test_a_calibration_of_an_earlier_version_weighs_only_what_it_knows(tmp_path):
    save_calibration(Calibration(bias=1.0), tmp_path)
    saved = json.loads((tmp_path / "calibration.json").read_text())
    for later in ("energy", "height", "border", "presence"):
        del saved[later]
    (tmp_path / "calibration.json").write_text(json.dumps(saved))
    assert load_calibration(tmp_path) == Calibration(bias=1.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_separates_as_well_as_the_best_one_found_by_trying_all(seed):
    rng = np.random.default_rng(seed)
    probability, positive = rng.integers(0, 8, 40) / 8, rng.random(40) < 0.4

    def balanced(threshold: float) -> float:
        above = probability >= threshold
        return above[positive].mean() - above[~positive].mean()

    best = max(balanced(threshold) for threshold in probability)
    assert balanced(separating_threshold(probability, positive)) == pytest.approx(best)


def test_reliability_counts_each_bin():
    probability = np.array([0.05, 0.07, 0.55, 0.95, 1.0])
    correct = np.array([False, True, True, True, False])
    bins = reliability(probability, correct, bins=10)
    np.testing.assert_array_equal(bins.count, [2, 0, 0, 0, 0, 1, 0, 0, 0, 2])
    assert bins.predicted[[0, 5, 9]] == pytest.approx([0.06, 0.55, 0.975])
    assert bins.observed[[0, 5, 9]] == pytest.approx([0.5, 1.0, 0.5])
    assert bins.expected_error == pytest.approx((2 * 0.44 + 0.45 + 2 * 0.475) / 5)


def test_risk_is_the_share_of_wrong_matches_among_the_most_trusted():
    coverage, risk = risk_coverage(np.array([0.2, 0.9, 0.5, 0.7]), np.array([False, True, False, True]))
    np.testing.assert_allclose(coverage, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(risk, [0, 0, 1 / 3, 0.5])


def test_a_calibration_is_saved_and_read_back_and_a_folder_without_one_has_the_defaults(tmp_path):
    assert load_calibration(tmp_path) == Calibration()
    presence = LogisticModel(bias=0.5, peak=0.25, entropy=1.0, agreement=2.0, border=-1.0)
    calibration = Calibration(bias=1.5, peak=-0.25, entropy=0.0, agreement=3.0, threshold=0.7, presence=presence)
    save_calibration(calibration, tmp_path)
    assert load_calibration(tmp_path) == calibration
    with pytest.raises(InputError, match="exists already"):
        save_calibration(calibration, tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "cannot read"),
        ("[]", "table of keys"),
        (json.dumps({"bias": 1.0}), "has no key"),
        (json.dumps({"bias": "x", "peak": 1, "entropy": 1, "agreement": 1, "threshold": 0.5}), "bias must be"),
        (json.dumps({"bias": 1, "peak": 1, "entropy": 1, "agreement": 1, "threshold": 2}), "from 0 to 1"),
    ],
)
def test_a_damaged_calibration_is_refused_clearly(content, says, tmp_path):
    (tmp_path / "calibration.json").write_text(content)
    with pytest.raises(ConfigError, match=says):
        load_calibration(tmp_path)
