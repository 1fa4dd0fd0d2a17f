"""Scores of saved predictions: the same as the metric's, fast, and with honest intervals."""

import numpy as np
import pytest
import torch

from mambamatcher.evaluation.pck import ALPHAS
from mambamatcher.evaluation.score import bootstrap_weights, score
from mambamatcher.evaluation.slices import left_right, slices
from mambamatcher.evaluation.table import Protocol, make_table
from mambamatcher.training.metric import PCK

BBOX = Protocol("bbox", "isotropic")


def synthetic_records(pairs, seed=0, box=True):
    """Make records as a prediction file holds them, with 1 to 12 keypoints a pair."""
    generator = np.random.default_rng(seed)
    records = []
    for number in range(pairs):
        count = int(generator.integers(1, 13))
        truth = generator.uniform(0, 300, (count, 2))
        records.append(
            {
                "pair": f"pair-{number}",
                "category": f"class-{number % 18:02d}",
                "target_points": truth.tolist(),
                "predicted": (truth + generator.normal(0, 25, (count, 2))).tolist(),
                "mirrored_points": [None] * count,
                "target": {"size": [400, 300], "bbox": [10.0, 20.0, 310.0, 240.0] if box else None},
                "variation": {"viewpoint": number % 3},
                "seconds": 0.02,
            }
        )
    return records


def test_scores_are_those_of_the_metric():
    table = make_table(synthetic_records(60))
    metric = PCK(60, table.categories, "bbox", "anisotropic")
    metric.update(table.predicted, table.targets, np.arange(60), [table.categories[k] for k in table.classes])
    (found,) = score(table, [Protocol("bbox", "anisotropic")], resamples=10)
    expected = metric.compute()
    assert found.estimates.keys() == expected.keys()
    for key, estimates in found.estimates.items():
        assert [estimate.value for estimate in estimates] == pytest.approx(expected[key].tolist())
        assert all(estimate.low <= estimate.value <= estimate.high for estimate in estimates if "/" not in key)


def test_every_protocol_that_applies_is_scored():
    with_boxes = {scores.protocol.label for scores in score(make_table(synthetic_records(5)), resamples=5)}
    assert with_boxes == {
        "img, isotropic",
        "img, anisotropic",
        "bbox, isotropic",
        "bbox, anisotropic",
        "bbox-kp, isotropic",
        "bbox-kp, anisotropic",
        "bbox-kp-padded, anisotropic",
    }
    without = {scores.protocol.reference for scores in score(make_table(synthetic_records(5, box=False)), resamples=5)}
    assert without == {"img", "bbox-kp", "bbox-kp-padded"}


def test_bootstrap_interval_of_a_mean_is_that_of_the_normal_approximation():
    records = synthetic_records(2_000)
    table = make_table(records)
    (found,) = score(table, [BBOX], alphas=[0.1])
    estimate = found.estimates["image"][0]
    shares = (table.errors(BBOX) <= 0.1).sum(axis=1) / table.counts
    expected = 1.96 * shares.std(ddof=1) / len(records) ** 0.5
    assert (estimate.high - estimate.low) / 2 == pytest.approx(expected, rel=0.1)


def test_bootstrap_draws_as_many_pairs_as_there_are_and_the_same_ones_every_time():
    weights = bootstrap_weights(7, 50, seed=1)
    assert (weights.sum(axis=1) == 7).all()
    assert (weights == bootstrap_weights(7, 50, seed=1)).all()


@pytest.mark.parametrize("pairs", [7, 308, 12_234])
def test_bootstrap_draws_what_published_intervals_were_made_with(pairs):
    drawn = torch.randint(pairs, (3, pairs), generator=torch.Generator().manual_seed(5))
    expected = [np.bincount(row, minlength=pairs) for row in drawn.numpy()]
    assert (bootstrap_weights(pairs, 3, seed=5) == expected).all()


def test_slices_average_the_pairs_of_each_grade():
    records = synthetic_records(30)
    table = make_table(records)
    found = slices(table, records, BBOX, ALPHAS)
    assert [(each.grade, each.level, each.pairs) for each in found] == [
        ("viewpoint", "easy", 10),
        ("viewpoint", "medium", 10),
        ("viewpoint", "hard", 10),
    ]
    overall = score(table, [BBOX], resamples=5)[0].estimates["image"][2].value
    assert np.mean([each.image[2] for each in found]) == pytest.approx(overall)


def test_left_taken_for_right_is_counted_where_the_other_side_shows():
    record = synthetic_records(1)[0] | {
        "target_points": [[100.0, 50.0], [140.0, 50.0], [120.0, 80.0]],
        "mirrored_points": [[140.0, 50.0], [100.0, 50.0], None],
        "predicted": [[139.0, 52.0], [150.0, 50.0], [0.0, 0.0]],
    }
    found = left_right(make_table([record]))
    assert (found.confused, found.keypoints, found.rate) == (1, 2, 0.5)
    assert left_right(make_table(synthetic_records(3))) is None
