from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.matching.matcher import PreparedPair
from mambamatcher.matching.scores import WholeMap
from mambamatcher.matching.transfer import distances
from mambamatcher.model.frames import grid_centres
from mambamatcher.model.transfer_settings import SHARP
from mambamatcher.tools.edit import (
    object_mask,
    read_layer,
    swap_texture,
    transfer_edit,
    transfer_mask,
    transfer_overlay,
)
from mambamatcher.tools.flow import TRUSTED, Flow, dense_flow, smooth_places
from tests.tools.conftest import picture

GRID = (12, 14)
TURN = np.array([[0.8, 0.15], [-0.2, 0.7]])  # target to source, in the unit frame
SHIFT = np.array([0.07, -0.04])


def affine_places(grid: tuple[int, int]) -> np.ndarray:
    return (grid_centres(grid).astype(np.float64) @ TURN.T + SHIFT).reshape(*grid, 2)


def pair_with(places: np.ndarray, source: tuple[int, int] = (11, 13), readout: str = "argmax") -> PreparedPair:
    """A pair whose scores fall off smoothly around where each target position lies in the source."""
    wanted = places.astype(np.float32).reshape(-1, 2)
    scores = np.exp(-np.square(distances(grid_centres(source), wanted)) / (2 * 0.2**2))
    refined = WholeMap(scores.reshape(*source, *places.shape[:2]))
    transfer = replace(SHARP, readout=readout, temperature=20.0)
    return PreparedPair(source=picture(130, 110), target=picture(140, 120, 1), scores=refined, transfer=transfer)


def test_smoothing_keeps_every_affine_motion_whatever_the_weights():
    places = affine_places(GRID)
    weight = np.random.default_rng(0).uniform(0.1, 1, GRID)
    np.testing.assert_allclose(smooth_places(places, weight), places, atol=1e-4)


def test_wrong_matches_are_outvoted_by_their_neighbours():
    rng = np.random.default_rng(1)
    places = affine_places(GRID)
    wrong = rng.random(GRID) < 0.15
    noisy = np.where(wrong[..., None], rng.uniform(-1, 1, places.shape), places)
    error = np.linalg.norm(smooth_places(noisy, np.ones(GRID)) - places, axis=-1)
    assert error.max() < 0.5 * np.linalg.norm(noisy - places, axis=-1).max()
    assert np.median(error) < 0.02
    assert error[~wrong].mean() < 0.05


def test_smoothing_is_the_same_in_parts_as_at_once(monkeypatch):
    places = affine_places(GRID) + np.random.default_rng(2).normal(0, 0.05, (*GRID, 2))
    at_once = smooth_places(places, np.ones(GRID))
    monkeypatch.setattr("mambamatcher.tools.flow.ROWS", 17)
    np.testing.assert_allclose(smooth_places(places, np.ones(GRID)), at_once)


@pytest.mark.parametrize("readout", ["argmax", "kernel_soft_argmax"])
def test_the_flow_of_a_smooth_map_is_finer_than_the_grid_and_trusted(readout):
    flow = dense_flow(pair_with(affine_places(GRID), readout=readout))
    error = np.linalg.norm(flow.places - affine_places(GRID), axis=-1)
    inner = error[2:-2, 2:-2]
    assert inner.max() < 0.5 * 2 / 13  # an argmax is up to 0.7 cells off
    assert inner.mean() < 0.2 * 2 / 13
    assert (flow.trust[2:-2, 2:-2] > TRUSTED).all()


def test_places_that_have_no_counterpart_are_not_trusted():
    places = affine_places(GRID)
    places[:, 8:] = [0.0, 0.0]  # the right part of the target looks like one spot of the source
    trust = dense_flow(pair_with(places)).trust
    assert (trust[2:-2, 2:5] > TRUSTED).all()
    assert (trust[2:-2, 11:] < TRUSTED).all()


def identity(size: tuple[int, int] = (9, 9), trust: float = 1.0) -> Flow:
    return Flow(grid_centres(size).astype(np.float64).reshape(*size, 2), np.full(size, trust))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_the_flow_of_an_image_to_itself_changes_nothing(mode):
    image = picture(70, 50).convert(mode)
    warped = identity().warp(image, image.size)
    assert (warped.mode, warped.size) == (mode, image.size)
    np.testing.assert_allclose(np.asarray(warped).astype(int), np.asarray(image).astype(int), atol=1)


def test_a_shift_by_whole_pixels_moves_pixels(monkeypatch):
    image = picture(80, 80)
    flow = identity()
    shifted = Flow(
        flow.places + np.array([2 * 10 / 80, 0]), flow.trust
    )  # the target shows what is 10 pixels to the right
    whole = np.asarray(shifted.warp(image, image.size)).astype(int)
    np.testing.assert_allclose(whole[:, :70], np.asarray(image)[:, 10:].astype(int), atol=1)
    monkeypatch.setattr("mambamatcher.tools.flow.BAND_PIXELS", 900)
    np.testing.assert_array_equal(np.asarray(shifted.warp(image, image.size)), whole)


def half_trusted() -> Flow:
    trust = np.zeros((9, 9))
    trust[:, :4] = 1.0
    return replace(identity(), trust=trust)


def test_a_mask_is_transferred_only_where_there_is_a_match():
    mask = Image.new("L", (90, 60), 255)
    transferred = np.asarray(transfer_mask(half_trusted(), mask, (180, 120)))
    assert transferred.shape == (120, 180)
    assert (transferred[:, :60] == 255).all()
    assert (transferred[:, 110:] == 0).all()


def test_an_edit_changes_the_target_only_where_the_source_was_changed_and_matches():
    source, target = picture(90, 60), picture(90, 60, 1)
    edited = source.copy()
    edited.paste((255, 0, 0), (10, 10, 30, 30))
    edited.paste((0, 0, 255), (65, 10, 85, 30))
    found = np.asarray(transfer_edit(half_trusted(), source, edited, target)).astype(int)
    assert np.abs(found[15:25, 15:25] - [255, 0, 0]).max() < 10
    untouched = np.ones((60, 90), dtype=bool)
    untouched[5:35, 5:35] = False
    np.testing.assert_array_equal(found[untouched], np.asarray(target)[untouched])
    with pytest.raises(InputError, match="does not differ"):
        transfer_edit(half_trusted(), source, source.copy(), target)


def test_an_overlay_lies_over_the_target_with_its_own_transparency():
    target = Image.new("RGB", (90, 60), (100, 100, 100))
    overlay = Image.new("RGBA", (90, 60), (255, 255, 0, 0))  # transparent, whatever colour it hides
    overlay.paste((200, 0, 0, 128), (10, 10, 30, 40))
    found = np.asarray(transfer_overlay(identity(), overlay, target)).astype(int)
    assert np.abs(found[20:30, 15:25] - [150, 50, 50]).max() <= 2
    assert (found[45:, 50:] == 100).all()
    assert found[..., 1].max() <= 100  # none of the hidden yellow


def test_swapping_replaces_the_object_inside_both_masks_and_says_how_much():
    source, target = picture(90, 60), picture(90, 60, 1)
    everything = Image.new("L", (90, 60), 255)
    inner = Image.new("L", (90, 60), 0)
    inner.paste(255, (20, 20, 70, 40))
    swapped, share = swap_texture(identity(), source, target, everything, inner)
    pixels = np.asarray(swapped).astype(int)
    assert np.abs(pixels[25:35, 25:65] - np.asarray(source)[25:35, 25:65]).max() <= 1
    np.testing.assert_array_equal(pixels[:15], np.asarray(target)[:15])
    assert share == pytest.approx(1.0, abs=0.02)
    same, nothing = swap_texture(identity(trust=0.0), source, target, everything, inner)
    np.testing.assert_array_equal(np.asarray(same), np.asarray(target))
    assert nothing == 0.0


def test_an_objects_mask_covers_the_same_part_of_the_image():
    foreground = np.zeros((6, 6), dtype=bool)
    foreground[:, :3] = True
    mask = np.asarray(object_mask(foreground, (120, 60)))
    assert mask.shape == (60, 120)
    assert (mask[:, :45] > 250).all()
    assert (mask[:, 75:] < 5).all()


def test_a_layer_must_cover_its_source(tmp_path):
    Image.new("L", (30, 20)).save(tmp_path / "mask.png")
    assert read_layer(tmp_path / "mask.png", "RGBA", (30, 20)).mode == "RGBA"
    with pytest.raises(InputError, match="30x20 pixels and the source 20x30"):
        read_layer(tmp_path / "mask.png", "L", (20, 30))
    Image.new("L", (30, 20)).save(tmp_path / "damaged.png", exif=b"Exif\0\0no EXIF at all")
    assert read_layer(tmp_path / "damaged.png", "L", (30, 20)).size == (30, 20)
    (tmp_path / "bad.png").write_bytes(b"x")
    with pytest.raises(InputError, match="not a readable image"):
        read_layer(tmp_path / "bad.png", "L", (1, 1))
