import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.testing import assert_close

from mambamatcher.errors import ConfigError
from mambamatcher.model.frames import smallest_radius
from mambamatcher.model.geometry import grid_centres
from mambamatcher.model.losses import keypoint_loss
from mambamatcher.model.transfer import dense_transfer, matching_probability, read_out, soft_sampler, transfer_points
from mambamatcher.model.transfer_settings import SHARP, Transfer

GRIDS = (2, 3, 4, 5)
PRINTED = Transfer(scores="printed", sigma=0.4, temperature=3.0)


def refined(seed: int = 0, grids=GRIDS) -> torch.Tensor:
    return torch.randn(2, *grids, generator=torch.Generator().manual_seed(seed))


def centre(i: int, n: int) -> float:
    return (i + 0.5) * 2 / n - 1


def slow_flow(scores: np.ndarray, transfer: Transfer) -> tuple[float, float]:
    """Transfer one source position by the paper's two equations; `scores` is (ht, wt)."""
    ht, wt = scores.shape
    k, l = np.unravel_index(np.argmax(scores), scores.shape)  # noqa: E741
    lowest = scores.min() if transfer.scores == "shifted" else 0.0
    total, x, y = 0.0, 0.0, 0.0
    for i in range(ht):
        for j in range(wt):
            squared = (centre(i, ht) - centre(k, ht)) ** 2 + (centre(j, wt) - centre(l, wt)) ** 2
            gaussian = math.exp(-squared / (2 * transfer.sigma**2))
            weight = math.exp(transfer.temperature * gaussian * (scores[i, j] - lowest))
            total, x, y = total + weight, x + weight * centre(j, wt), y + weight * centre(i, ht)
    return x / total, y / total


def slow_points(maps: np.ndarray, points: np.ndarray, transfer: Transfer, radius: float) -> np.ndarray:
    hs, ws = maps.shape[:2]
    out = []
    for px, py in points:
        total, at = 0.0, np.zeros(2)
        for i in range(hs):
            for j in range(ws):
                weight = max(0.0, radius - math.hypot(px - centre(j, ws), py - centre(i, hs)))
                total, at = total + weight, at + weight * np.array(slow_flow(maps[i, j], transfer))
        out.append(at / total)
    return np.array(out)


def slow_mean_shift(scores: np.ndarray, transfer: Transfer) -> tuple[float, float]:
    """Find the position with the most mass of the softmax around it; return the mean of that mass."""
    places = {(i, j): (centre(j, scores.shape[1]), centre(i, scores.shape[0])) for i, j in np.ndindex(*scores.shape)}
    total = sum(math.exp(transfer.temperature * scores[at]) for at in places)

    def near(middle: tuple[int, int]) -> dict[tuple[int, int], float]:
        return {
            at: math.exp(transfer.temperature * scores[at])
            / total
            * math.exp(-(math.dist(place, places[middle]) ** 2) / (2 * transfer.sigma**2))
            for at, place in places.items()
        }

    best = max((near(at) for at in places), key=lambda mass: sum(mass.values()))
    x, y = (sum(mass * places[at][axis] for at, mass in best.items()) / sum(best.values()) for axis in (0, 1))
    return x, y


def test_a_mean_shift_reads_the_mean_around_the_position_with_the_most_mass():
    maps, transfer = refined(), Transfer(readout="mean_shift", sigma=0.4, temperature=2.0)
    found = dense_transfer(maps, transfer).unflatten(1, GRIDS[:2])
    for at in np.ndindex(2, *GRIDS[:2]):
        assert_close(found[at].double().numpy(), np.array(slow_mean_shift(maps[at].double().numpy(), transfer)))


def test_two_good_positions_side_by_side_outweigh_a_better_one_in_a_mean_shift_only():
    row = torch.zeros(1, 1, 1, 1, 9)
    row[..., 1], row[..., 6], row[..., 7] = 1.05, 1.0, 1.0
    where = {
        readout: dense_transfer(row, Transfer(readout=readout, sigma=0.3, temperature=8.0, scores="shifted"))[0, 0, 0]
        for readout in ("mean_shift", "kernel_soft_argmax")
    }
    assert where["mean_shift"] == pytest.approx((centre(6, 9) + centre(7, 9)) / 2, abs=0.05)
    assert where["kernel_soft_argmax"] == pytest.approx(centre(1, 9), abs=0.3)


@pytest.mark.parametrize("transfer", [PRINTED, replace(SHARP, temperature=3.0)], ids=["printed", "shifted"])
@pytest.mark.parametrize("radius", [0.9, 0.7])
def test_transferred_points_equal_the_papers_equations(transfer, radius):
    maps, points = refined(), torch.rand(2, 6, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
    found = transfer_points(maps, points, transfer, radius)
    for b in range(2):
        expected = slow_points(maps[b].double().numpy(), points[b].double().numpy(), transfer, radius)
        assert_close(found[b].double().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_blended_scores_are_read_once():
    maps, radius = refined(), 0.9
    points = torch.rand(2, 6, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
    transfer = replace(SHARP, temperature=3.0, blend="scores")
    found = transfer_points(maps, points, transfer, radius)
    for b, k in np.ndindex(2, 6):
        weights = np.zeros(GRIDS[:2])
        for i, j in np.ndindex(*GRIDS[:2]):
            at = centre(j, GRIDS[1]), centre(i, GRIDS[0])
            weights[i, j] = max(0.0, radius - math.dist(points[b, k].tolist(), at))
        scores = np.einsum("ij,ijkl->kl", weights / weights.sum(), maps[b].double().numpy())
        assert_close(found[b, k].double().numpy(), np.array(slow_flow(scores, transfer)), rtol=1e-4, atol=1e-5)


def test_neighbours_that_disagree_meet_halfway_only_if_their_points_are_blended():
    maps = torch.zeros(1, 1, 2, 1, 8)
    maps[0, 0, 0, 0, 0], maps[0, 0, 1, 0, 7] = 1.0, 0.9
    between = torch.zeros(1, 1, 2)
    sharp = replace(SHARP, temperature=200.0)
    assert abs(transfer_points(maps, between, sharp)[0, 0, 0].item()) < 0.01
    scores = replace(sharp, blend="scores")
    assert transfer_points(maps, between, scores)[0, 0, 0].item() == pytest.approx(-7 / 8, abs=0.01)
    assert read_out(maps, between, scores).probability[0, 0, 0, 0].item() > 0.99


def test_argmax_readout_gives_the_centre_of_the_best_position():
    maps = refined()
    flow = dense_transfer(maps, Transfer(readout="argmax")).unflatten(1, GRIDS[:2])
    for b, i, j in np.ndindex(2, *GRIDS[:2]):
        k, l = divmod(int(maps[b, i, j].argmax()), GRIDS[3])  # noqa: E741
        assert_close(flow[b, i, j], torch.tensor([centre(l, GRIDS[3]), centre(k, GRIDS[2])]))


def test_the_printed_form_lifts_far_negative_scores_and_the_shifted_one_does_not():
    # a row of negative scores: the best at the left, the worst at the far right
    row = torch.tensor([-0.2, -0.5, -0.6, -0.9]).view(1, 1, 4)
    narrow = {"sigma": 0.2, "temperature": 50.0}
    printed = matching_probability(row, (1, 4), Transfer(**narrow))[0, 0]
    shifted = matching_probability(row, (1, 4), replace(SHARP, **narrow))[0, 0]
    assert printed.argmax() == 3
    assert shifted.argmax() == 0
    assert (shifted.diff() <= 0).all()


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, (1, 2, 3, 4, 5), elements=st.floats(-100, 100, width=32)),
    arrays(np.float32, (1, 4, 2), elements=st.floats(-1, 1, width=32)),
    st.sampled_from([Transfer(), SHARP, Transfer(readout="argmax")]),
)
def test_any_scores_and_points_give_points_inside_the_image_and_finite_gradients(scores, points, transfer):
    maps = torch.from_numpy(scores).requires_grad_()
    found = transfer_points(maps, torch.from_numpy(points), transfer)
    assert found.isfinite().all()
    assert (found.abs() <= 1 + 1e-5).all()
    if found.requires_grad:
        found.sum().backward()
        assert maps.grad is not None
        assert maps.grad.isfinite().all()


@settings(deadline=None)
@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.floats(1e-3, 1), st.data())
def test_sampler_weights_sum_to_one_everywhere_even_where_the_radius_would_leave_holes(grid, radius, data):
    points = data.draw(arrays(np.float32, (1, 3, 2), elements=st.sampled_from([-1.0, -0.5, 0.0, 0.3, 1.0])))
    weights = soft_sampler(torch.from_numpy(points), grid, radius)
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), torch.ones(1, 3))


def test_a_radius_that_covers_the_grid_is_taken_as_it_is():
    points, grid = torch.tensor([[[0.11, -0.3]]]), (30, 30)
    weights = soft_sampler(points, grid, 0.1)
    distance = torch.cdist(points, grid_centres(grid)[None])
    assert ((weights > 0) == (distance < 0.1)).all()


def test_a_point_on_a_position_with_a_small_radius_reads_only_that_position():
    maps = refined(grids=(30, 30, 4, 5))
    point = grid_centres((30, 30))[7 * 30 + 11].view(1, 1, 2).expand(2, 1, 2)
    assert_close(transfer_points(maps, point, Transfer())[:, 0], dense_transfer(maps, Transfer())[:, 7 * 30 + 11])


def test_heat_maps_are_distributions():
    heat = read_out(refined(), torch.zeros(2, 3, 2), Transfer()).probability
    assert heat.shape == (2, 3, 4, 5)
    assert_close(heat.sum(dim=(2, 3)), torch.ones(2, 3))


def test_stays_in_float32_under_autocast():
    maps, points = refined(), torch.zeros(2, 3, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = transfer_points(maps, points, Transfer())
        halved = transfer_points(maps.bfloat16(), points, Transfer())
    assert inside.dtype == halved.dtype == torch.float32
    assert_close(inside, transfer_points(maps, points, Transfer()))


@pytest.mark.parametrize("name", ["sigma", "temperature", "radius", "training_radius", "training_temperature"])
def test_settings_must_be_positive(name):
    with pytest.raises(ConfigError, match=name):
        Transfer(**{name: 0.0})


def test_smallest_radius_is_just_above_half_a_cells_diagonal():
    assert smallest_radius((2, 4)) == pytest.approx(1.05 * math.sqrt(0.25 + 0.0625))


def test_loss_is_the_mean_over_present_keypoints_then_over_pairs():
    predicted = torch.tensor([[[0.0, 0.0], [1.0, 1.0]], [[0.5, 0.0], [9.0, 9.0]]])
    truth = torch.tensor([[[0.3, 0.4], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    present = torch.tensor([[True, True], [True, False]])
    # first pair: (0.25 + 1) / 2; second: 0.25 / 1
    assert keypoint_loss(predicted, truth, present).item() == pytest.approx((0.625 + 0.25) / 2)


def test_absent_keypoints_and_pairs_without_any_count_for_nothing():
    predicted = torch.zeros(2, 2, 2, requires_grad=True)
    truth = torch.tensor([[[0.5, 0.0], [torch.nan, torch.nan]], [[torch.nan] * 2] * 2])
    present = torch.tensor([[True, False], [False, False]])
    loss = keypoint_loss(predicted, truth, present)
    loss.backward()
    assert loss.item() == pytest.approx(0.25)
    assert predicted.grad is not None
    assert predicted.grad.isfinite().all()
    assert (predicted.grad != 0).sum() == 1
    assert keypoint_loss(predicted, truth, torch.zeros_like(present)).item() == 0
