"""Looking inside the correlation map: attribution, removal, levels and failures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mambamatcher.datasets.records import Pair
from mambamatcher.errors import ConfigError, InputError
from mambamatcher.model.correlation import LinearAggregation
from mambamatcher.paper.attribution import area_under, attribute, cumulative_share
from mambamatcher.paper.failures import INSTANCE, SIDE, find_failures
from mambamatcher.paper.opened_pair import evenly_spaced, open_pair, predicted_points, refined_levels
from mambamatcher.paper.removal import removal_curve, remove_strongest


def test_attribution_sums_to_the_difference_of_the_outputs(matcher, opened):
    pytest.importorskip("captum")
    found = attribute(matcher.model.correlation, opened.correlation, opened.points[0, 0], (2, 3), radius=0.2)
    difference = found.output - found.baseline_output
    assert abs(difference) > 1e-3
    assert float(found.tokens.sum()) == pytest.approx(difference, rel=1e-2)


def test_attribution_comes_first_along_the_order_it_grows_with():
    similarity = torch.arange(81.0).reshape(3, 3, 3, 3)
    areas = {k: area_under(cumulative_share(similarity, similarity, k)) for k in ("descending", "ascending", "random")}
    assert areas["descending"] > areas["random"] > areas["ascending"]
    assert areas["descending"] + areas["ascending"] == pytest.approx(1.0)


def test_removing_nothing_changes_nothing(matcher, opened):
    assert_close(remove_strongest(opened.correlation, 0.0), opened.correlation, rtol=0, atol=0)
    curve = removal_curve(matcher.model, [opened], 0.1, shares=(0.0,))
    right = np.linalg.norm(predicted_points(opened, matcher.model) - opened.truth, axis=1) <= 0.1 * opened.size
    assert curve[0]["pck"] == pytest.approx(100 * right.mean())


def test_the_strongest_of_the_last_level_are_removed_on_every_level():
    correlation = torch.rand(2, 3, 2, 3, 4, 5) + 0.1
    removed = remove_strongest(correlation, 0.25)
    gone = removed[:, -1] == 0
    assert gone.flatten(1).sum(dim=1).tolist() == [30, 30]
    assert bool((removed.movedim(1, -1)[gone] == 0).all())
    for pair in range(2):
        assert correlation[pair, -1][gone[pair]].min() >= correlation[pair, -1][~gone[pair]].max()


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_an_impossible_share_is_refused(opened, share):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        remove_strongest(opened.correlation, share)


def test_refined_levels_project_onto_the_refined_map(matcher, opened):
    aggregation = matcher.model.correlation
    levels = refined_levels(aggregation, opened.correlation)
    with torch.no_grad():
        expected = aggregation(opened.correlation)[0]
        projected = aggregation.project(levels.movedim(0, -1)).squeeze(-1)
    assert_close(projected, expected, rtol=1e-4, atol=1e-5)


def test_a_weighted_sum_has_no_refined_levels(opened):
    with pytest.raises(InputError, match="no refined levels"):
        refined_levels(LinearAggregation().build(opened.correlation.shape[1]), opened.correlation)


def test_pairs_are_taken_at_equal_distances():
    assert evenly_spaced(list(range(10)), 4) == [0, 3, 6, 9]
    assert evenly_spaced([1, 2], 5) == [1, 2]


def test_a_prediction_on_the_other_side_is_found(matcher, pairs):
    """The counterpart of a keypoint is put where the model puts that keypoint, and the keypoint elsewhere."""
    predicted = predicted_points(open_pair(matcher, pairs[0]), matcher.model)[0]
    name = pairs[0].names[0]
    source = replace(pairs[0].source, keypoints={"L_Eye": pairs[0].source.keypoints[name]})
    width, height = map(float, pairs[0].target.size)
    far = (0.0, 0.0) if predicted.sum() > (width + height) / 2 else (width, height)
    target = replace(pairs[0].target, keypoints={"L_Eye": far, "R_Eye": (float(predicted[0]), float(predicted[1]))})
    census = find_failures(matcher, [Pair("swapped", source, target, "dog")], 0.1)
    assert (census.keypoints, census.wrong, census.wrong_with_side) == (1, 1, 1)
    assert (census.count(SIDE), census.count(INSTANCE)) == (1, 0)
