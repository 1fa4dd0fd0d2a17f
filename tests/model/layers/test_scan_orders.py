import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mambamatcher.model.layers.scan_orders import SCAN_ORDERS, directions, invert, snake, take
from tests import slow

SHAPE = (2, 3, 4, 5)
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize("name", list(SCAN_ORDERS))
def test_every_order_is_a_permutation_undone_by_its_inverse(name):
    similarity = torch.randn(2, 120, generator=torch.Generator().manual_seed(0))
    sequence = torch.randn(2, 120, 3)
    order = SCAN_ORDERS[name](similarity, SHAPE)
    assert (order.sort(dim=-1).values == torch.arange(120)).all()
    assert_close(take(take(sequence, order), invert(order)), sequence, rtol=0, atol=0)


@pytest.mark.parametrize("name", sorted(set(SCAN_ORDERS) - {"random"}))
@pytest.mark.parametrize("shape", [SHAPE, (5, 3), (1, 1, 1, 1)])
def test_every_order_equals_its_obvious_version_also_with_ties(name, shape):
    similarity = torch.randint(0, 4, (2, int(np.prod(shape))), generator=torch.Generator().manual_seed(0)).float()
    order = SCAN_ORDERS[name](similarity, shape)
    for row, scores in zip(order, similarity, strict=True):
        assert row.tolist() == slow.scan_order(name, scores.numpy(), shape)


def test_descending_puts_the_strongest_first():
    order = SCAN_ORDERS["descending"](torch.tensor([[0.1, 0.9, -0.5, 0.9]]), (4,))
    assert order.tolist() == [[1, 3, 0, 2]]


def test_z_order_of_a_square_is_the_textbook_curve():
    # Morton's curve on 4x4: quadrants in order, each walked as a Z
    order = SCAN_ORDERS["z_order"](torch.zeros(1, 16), (4, 4))
    assert order.tolist() == [[0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]]


def test_random_is_the_same_every_time_and_not_the_raster():
    orders = [SCAN_ORDERS["random"](torch.randn(1, 120), SHAPE) for _ in range(2)]
    assert (orders[0] == orders[1]).all()
    assert (orders[0] != torch.arange(120)).any()


@given(shapes, st.data())
def test_a_snake_visits_every_position_once_and_moves_one_step_at_a_time(shape, data):
    fastest = data.draw(st.integers(0, len(shape) - 1))
    path = snake(shape, fastest)
    assert sorted(path.tolist()) == list(range(int(np.prod(shape))))
    places = np.stack(np.unravel_index(path.numpy(), shape), axis=-1)
    assert (np.abs(np.diff(places, axis=0)).sum(axis=1) == 1).all()
    assert [tuple(p) for p in places.tolist()] == slow.snake_path(shape, fastest)


@given(shapes, st.booleans())
def test_directions_tell_axis_and_sense_of_every_step(shape, backwards):
    path = snake(shape, len(shape) - 1)
    path = path.flip(0) if backwards else path
    places = [tuple(int(c) for c in np.unravel_index(p, shape)) for p in path.tolist()]
    assert directions(path, shape).tolist() == slow.direction_names(places)
