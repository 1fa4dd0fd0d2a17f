from dataclasses import replace

import numpy as np
import pytest

from mambamatcher.datasets.synthetic import CATEGORIES, SyntheticPair
from mambamatcher.datasets.synthetic.parts import topology
from mambamatcher.datasets.synthetic.render import render
from mambamatcher.datasets.synthetic.scene import Companion
from tests.datasets.synthetic.scenes import SIZE, plank, some_pairs, typical
from tests.datasets.synthetic.test_pairs import on_or_beside


def centres(view_size: tuple[int, int]) -> np.ndarray:
    width, height = view_size
    return np.stack(np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5), axis=-1)


def test_a_picture_corresponds_to_itself_exactly():
    for pair in some_pairs():
        same = SyntheticPair(pair.source, pair.source).correspondence
        assert (same.valid == pair.source.mask).all()
        assert np.abs(same.positions - centres(SIZE))[same.valid].max() < 1e-3


@pytest.mark.parametrize("category", list(CATEGORIES))
def test_dense_correspondence_carries_keypoints_to_keypoints(category: str):
    source = typical(category, 50.0)
    target = replace(typical(category, 75.0, seed=1), placement=replace(source.placement, extent=0.7))
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
    """Work a few pixels out anew, through camera-frame points instead of screen ones."""
    for pair in some_pairs()[:10]:
        rows, columns = np.nonzero(pair.correspondence.valid)
        for row, column in list(zip(rows, columns, strict=True))[::97]:
            corners = topology(CATEGORIES[pair.category]).triangles[pair.source.surface[row, column]]
            start, end = (
                np.c_[view.screen[corners, :2], np.ones(3)] / view.screen[corners, 2:]
                for view in (pair.source, pair.target)
            )
            ray = np.array([column + 0.5, row + 0.5, 1.0])
            weights = np.linalg.solve(start.T, ray)
            point = (weights / weights.sum()) @ end
            assert pair.correspondence.positions[row, column] == pytest.approx(point[:2] / point[2], abs=1e-2)


def test_forward_then_backward_comes_home():
    returned, errors = [], []
    for pair in some_pairs():
        there, back = pair.correspondence, pair.reversed().correspondence
        starts, ends = centres(SIZE)[there.valid], there.positions[there.valid]
        columns, rows = np.floor(ends).astype(int).T
        both = back.valid[rows, columns]
        returned.append(both)
        errors.append(np.linalg.norm(back.positions[rows, columns] - starts, axis=1)[both])
    assert np.concatenate(returned).mean() > 0.9
    # Rounding to a target pixel moves a point by half a pixel, times the stretch between the pictures.
    assert np.median(np.concatenate(errors)) < 0.7
    assert np.percentile(np.concatenate(errors), 95) < 3.0


def test_valid_points_leave_from_and_land_on_what_is_seen():
    for pair in some_pairs():
        assert not (pair.correspondence.valid & ~pair.source.mask).any()
        assert on_or_beside(pair.target.mask, pair.correspondence.positions[pair.correspondence.valid]).all()


def test_what_a_plank_hides_is_not_valid():
    source, target = render(typical("dog", 70.0), SIZE), typical("dog", 60.0, seed=1)
    clear = render(target, SIZE)
    barred = render(replace(target, occluders=plank(0.5, 0.1)), SIZE)
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


def test_a_second_instance_is_not_part_of_the_mask():
    alone = typical("cow", 80.0)
    other = Companion(typical("cow", 0.0, seed=2).main, yaw=30.0, right=0.3, back=-0.8, scale=0.7)
    together = render(replace(alone, companions=(other,)), SIZE)
    clear = render(alone, SIZE)
    assert together.occluded
    assert 0 < together.mask.sum() < clear.mask.sum()
    assert not (together.mask & ~clear.mask).any()
    assert not (together.visible & ~clear.visible).any()
    assert (together.image[~clear.mask] != clear.image[~clear.mask]).any()


def test_an_object_over_the_edge_is_truncated():
    scene = typical("car", 90.0)
    view = render(replace(scene, placement=replace(scene.placement, centre=(0.95, 0.5))), SIZE)
    assert view.truncated
    assert view.bbox[2] == SIZE[0]
    beyond = view.keypoints[:, 0] >= SIZE[0]
    assert beyond.any()
    assert not view.visible[beyond].any()
