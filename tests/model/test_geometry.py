import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from mambamatcher.model.geometry import axis_centres, grid_centres, pixels_to_unit, unit_to_pixels

sizes = st.tuples(st.integers(1, 5000), st.integers(1, 5000))


@given(sizes, st.floats(0, 1), st.floats(0, 1))
def test_pixels_and_units_are_inverse_to_each_other(size, x, y):
    pixels = torch.tensor([x * size[0], y * size[1]], dtype=torch.float64)
    assert_close(unit_to_pixels(pixels_to_unit(pixels, size), size), pixels)


def test_edges_are_one_and_x_goes_with_the_width():
    corners = torch.tensor([[0.0, 0.0], [640.0, 480.0], [320.0, 120.0]])
    assert pixels_to_unit(corners, (640, 480)).tolist() == [[-1, -1], [1, 1], [0, -0.5]]


def test_centres_lie_in_the_middle_of_their_cells():
    assert axis_centres(4).tolist() == [-0.75, -0.25, 0.25, 0.75]
    assert grid_centres((1, 2)).tolist() == [[-0.5, 0.0], [0.5, 0.0]]
    assert grid_centres((2, 1)).tolist() == [[0.0, -0.5], [0.0, 0.5]]
