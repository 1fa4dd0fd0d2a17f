from dataclasses import replace

import numpy as np
import pytest

from mambamatcher.datasets.synthetic import CATEGORIES, SyntheticPair, SyntheticView
from mambamatcher.datasets.synthetic.raster import surface_points, transfer
from mambamatcher.datasets.synthetic.render import render
from mambamatcher.datasets.synthetic.scene import Post
from tests.datasets.synthetic.scenes import SIZE, some_pairs, typical
from tests.datasets.synthetic.test_pairs import on_or_beside


def centres(view_size: tuple[int, int]) -> np.ndarray:
    width, height = view_size
    return np.stack(np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5), axis=-1)


def test_an_image_corresponds_to_itself_exactly():
    for pair in some_pairs():
        same = SyntheticPair(pair.source, pair.source).correspondence
        assert (same.valid == pair.source.mask).all()
        assert np.abs(same.positions - centres(SIZE))[same.valid].max() < 1e-3


@pytest.mark.parametrize("category", list(CATEGORIES))
def test_dense_correspondence_transfers_keypoints_to_keypoints(category: str):
    source, target = typical(category, 50.0), typical(category, 75.0, seed=1)
    target = replace(target, viewpoint=replace(target.viewpoint, extent=0.7))
    pair = SyntheticPair(render(source, (384, 320)), render(target, (384, 320)))
    errors = []
    for start, end in zip(pair.source.keypoints[pair.shared], pair.target.keypoints[pair.shared], strict=True):
        near = pair.correspondence.valid & (np.abs(centres(pair.source.size) - start).max(axis=-1) < 1.5)
        if near.any():
            # The pixel centre lies up to a pixel from the keypoint, which the change of view may stretch.
            errors.append(np.linalg.norm(pair.correspondence.positions[near] - end, axis=-1).min())
    assert len(errors) >= 3
    assert np.median(errors) < 1.0
    assert max(errors) < 4.0


def test_positions_are_those_of_the_same_surface_point():
    """Work a few pixels out again, through camera-frame points instead of screen ones."""
    for pair in some_pairs()[:10]:
        rows, columns = np.nonzero(pair.correspondence.valid)
        for row, column in list(zip(rows, columns, strict=True))[::97]:
            corners = CATEGORIES[pair.category].topology.triangles[pair.source.buffer.surface[row, column]]
            start, end = (
                np.c_[view.mesh.screen[corners, :2], np.ones(3)] / view.mesh.screen[corners, 2:]
                for view in (pair.source, pair.target)
            )
            ray = np.array([column + 0.5, row + 0.5, 1.0])
            weights = np.linalg.solve(start.T, ray)
            point = (weights / weights.sum()) @ end
            assert pair.correspondence.positions[row, column] == pytest.approx(point[:2] / point[2], abs=1e-2)


def nearest_along_the_ray(view: SyntheticView, x: float, y: float) -> float:
    """Return the largest inverse depth of all triangles that cover a place of the screen, without a depth buffer."""
    corners = view.mesh.screen[view.mesh.triangles]
    corners = corners[((corners.min(axis=1) <= [x, y, np.inf]) & (corners.max(axis=1) >= [x, y, 0.0])).all(axis=1)]
    places = np.concatenate([corners[:, :, :2], np.ones((len(corners), 3, 1))], axis=2)
    solid = np.abs(np.linalg.det(places)) > 1e-6
    weights = np.linalg.solve(places[solid].transpose(0, 2, 1), np.array([[x], [y], [1.0]]))[:, :, 0]
    hit = (weights >= 0).all(axis=1)
    return float((weights[hit] * corners[solid][hit][:, :, 2]).sum(axis=1).max(initial=0.0))


def test_visibility_is_that_of_a_cast_ray():
    """Points with nothing nearer on their ray are valid, those well behind another surface are not."""
    agreed = {True: [], False: []}
    for pair in some_pairs():
        points = surface_points(pair.source.buffer, pair.source.mesh)
        positions, valid = transfer(points, pair.target.buffer, pair.target.mesh)
        for index in range(0, len(positions), 37):
            x, y = positions[index]
            inside = 0 <= x < SIZE[0] and 0 <= y < SIZE[1]
            if not inside or np.isinf(pair.target.buffer.inverse[int(y), int(x)]):
                assert not valid[index]
                continue
            corners = pair.target.mesh.screen[pair.target.mesh.triangles[points.triangle[index]], 2]
            depth = (points.weights[index] / corners).sum()
            nearer = nearest_along_the_ray(pair.target, x, y) * depth - 1
            if nearer < 1e-6 or nearer > 0.03:  # between, the tolerances of the depth buffer decide
                agreed[nearer < 1e-6].append(bool(valid[index]) == (nearer < 1e-6))
    assert all(len(cases) > 100 for cases in agreed.values())
    # Points that are less than a pixel from the outline of a nearer part may go either way.
    assert np.mean(agreed[True]) > 0.98
    assert np.mean(agreed[False]) > 0.98


def test_forward_then_backward_comes_home():
    returned, errors = [], []
    for pair in some_pairs():
        there, back = pair.correspondence, SyntheticPair(pair.target, pair.source).correspondence
        starts, ends = centres(SIZE)[there.valid], there.positions[there.valid]
        columns, rows = np.floor(ends).astype(int).T
        both = back.valid[rows, columns]
        returned.append(both)
        errors.append(np.linalg.norm(back.positions[rows, columns] - starts, axis=1)[both])
    assert np.concatenate(returned).mean() > 0.9
    # Rounding to a target pixel moves a point by half a pixel, times the stretch between the images.
    assert np.median(np.concatenate(errors)) < 0.7
    assert np.percentile(np.concatenate(errors), 95) < 3.0


def test_valid_points_leave_from_and_land_on_what_is_seen():
    for pair in some_pairs():
        assert not (pair.correspondence.valid & ~pair.source.mask).any()
        assert on_or_beside(pair.target.mask, pair.correspondence.positions[pair.correspondence.valid]).all()


def test_what_a_post_hides_is_not_valid():
    source, target = render(typical("dog", 70.0), SIZE), typical("dog", 60.0, seed=1)
    clear = render(target, SIZE)
    barred = render(replace(target, post=Post(0.5, 0.1)), SIZE)
    columns = np.arange(SIZE[0]) + 0.5
    behind = np.abs(columns / SIZE[0] - 0.5) < 0.1
    assert barred.occluded
    assert not clear.occluded
    assert not barred.mask[:, behind].any()
    assert (barred.mask == clear.mask)[:, ~behind].all()
    before, after = (SyntheticPair(source, view).correspondence for view in (clear, barred))
    lands_behind = behind[np.clip(before.positions[..., 0].astype(int), 0, SIZE[0] - 1)] & before.valid
    assert lands_behind.any()
    assert not (after.valid & lands_behind).any()
    assert not (after.valid & ~before.valid).any()
    hidden = behind[np.clip(barred.keypoints[:, 0].astype(int), 0, SIZE[0] - 1)]
    assert (clear.visible & hidden).any()
    assert not (barred.visible & hidden).any()


def test_an_object_over_the_edge_is_truncated():
    scene = typical("car", 90.0)
    view = render(replace(scene, viewpoint=replace(scene.viewpoint, centre=(0.95, 0.5))), SIZE)
    assert view.truncated
    assert view.bbox[2] == SIZE[0]
    beyond = view.keypoints[:, 0] >= SIZE[0]
    assert beyond.any()
    assert not view.visible[beyond].any()
