import numpy as np
import pytest

from mambamatcher.datasets.synthetic import CATEGORIES
from mambamatcher.datasets.synthetic.render import render
from tests.datasets.synthetic.scenes import typical

SIZE = (200, 160)


def other_side(name: str) -> str:
    return {"L_": "R_", "R_": "L_"}.get(name[:2], name[:2]) + name[2:]


@pytest.mark.parametrize("category", list(CATEGORIES))
def test_keypoints_have_names_of_their_own_and_sides_come_in_pairs(category: str):
    names = CATEGORIES[category].names
    assert len(set(names)) == len(names) >= 8
    assert {other_side(name) for name in names} == set(names)
    assert any(name.startswith("L_") for name in names)


@pytest.mark.parametrize("category", list(CATEGORIES))
def test_all_instances_share_one_topology_and_differ_in_shape(category: str):
    model, rng = CATEGORIES[category], np.random.default_rng(0)
    one, other = (model.vertices(model.draw(rng)) for _ in range(2))
    assert one.shape == other.shape == model.topology.canonical.shape
    assert np.isfinite(one).all()
    assert np.abs(one - other).max() > 0.01
    assert model.topology.triangles.max() == len(one) - 1


@pytest.mark.parametrize("category", list(CATEGORIES))
def test_surfaces_turn_outwards(category: str):
    """A closed surface that turns outwards has a positive volume, part by part."""
    model = CATEGORIES[category]
    shared, vertices = model.topology, model.vertices(model.draw(np.random.default_rng(1)))
    a, b, c = (vertices[shared.triangles[:, corner]] for corner in range(3))
    volumes = np.bincount(shared.part, (a * np.cross(b, c)).sum(axis=1))
    assert (volumes > 0).all()


@pytest.mark.parametrize("category", list(CATEGORIES))
def test_an_object_that_faces_right_shows_its_right_side(category: str):
    for yaw, near in ((90.0, "R_"), (-90.0, "L_")):
        view = render(typical(category, yaw), SIZE)
        assert view.facing == ("right" if yaw > 0 else "left")
        seen = [name for name, visible in zip(view.keypoint_names, view.visible, strict=True) if visible]
        far = "L_" if near == "R_" else "R_"
        assert sum(name.startswith(near) for name in seen) > sum(name.startswith(far) for name in seen)


@pytest.mark.parametrize("category", list(CATEGORIES))
def test_the_mirrored_view_has_left_and_right_exchanged(category: str):
    right, left = (render(typical(category, yaw), SIZE) for yaw in (40.0, -40.0))
    places = dict(zip(left.keypoint_names, left.keypoints, strict=True))
    for name, (x, y) in zip(right.keypoint_names, right.keypoints, strict=True):
        assert places[other_side(name)] == pytest.approx((SIZE[0] - x, y), abs=1e-6)


def test_the_object_fills_its_place():
    view = render(typical("chair", 30.0), SIZE)
    x1, y1, x2, y2 = view.bbox
    assert max((x2 - x1) / SIZE[0], (y2 - y1) / SIZE[1]) == pytest.approx(0.8, abs=0.02)
    assert (x1 + x2) / 2 == pytest.approx(SIZE[0] / 2, abs=2)
