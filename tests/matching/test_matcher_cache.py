from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.errors import InputError
from mambamatcher.model.config import override
from mambamatcher.model.geometry import pixels_to_unit, unit_to_pixels
from tests.helpers import to_tensor
from tests.matching.conftest import POINTS, picture


def test_each_picture_is_encoded_once_however_it_is_given(counted, tmp_path):
    matcher, encoded = counted
    source, target = picture(), picture(seed=1)
    source.save(tmp_path / "source.png")
    first = matcher.match(source, target, POINTS)
    assert len(encoded) == 2
    again = matcher.match(tmp_path / "source.png", np.asarray(target), POINTS)
    np.testing.assert_array_equal(first.points, again.points)
    matcher.match(target, source, [(1, 1)])
    matcher.match(target, target, [(1, 1)])
    assert len(encoded) == 2
    matcher.clear_cache()
    matcher.match(source, source, POINTS)
    assert len(encoded) == 3


def test_one_source_with_many_targets_is_encoded_once_even_without_a_cache(matcher, counted):
    _, encoded = counted
    uncached = Matcher(matcher.model, cache_bytes=0)
    targets = [picture(120, 80, seed=seed) for seed in (1, 2, 3)]
    results = list(uncached.match_many(picture(), targets, POINTS))
    assert len(encoded) == 4
    for target, result in zip(targets, results, strict=True):
        np.testing.assert_allclose(result.points, matcher.match(picture(), target, POINTS).points, atol=1e-3)
    pairs = [(picture(), target, POINTS) for target in targets]
    for one, other in zip(matcher.match_pairs(pairs), results, strict=True):
        np.testing.assert_allclose(one.points, other.points, atol=1e-3)


def test_wrong_points_for_many_targets_are_refused_before_anything_is_computed(counted):
    matcher, encoded = counted
    with pytest.raises(InputError, match="outside"):
        matcher.match_many(picture(), [picture()], [(1000, 1)])
    assert not encoded


def test_a_prepared_pair_answers_any_number_of_times(counted):
    matcher, encoded = counted
    pair = matcher.prepare(picture(), picture(seed=1))
    matcher.clear_cache()
    together = matcher.match(picture(), picture(seed=1), POINTS).points
    encoded.clear()
    np.testing.assert_allclose([pair.match([point]).points[0] for point in POINTS], together, atol=1e-3)
    assert not encoded
    with pytest.raises(InputError, match="outside"):
        pair.match([(91, 1)])


def test_new_weights_are_noticed():
    torch.manual_seed(1)
    model = MambaMatcher(presets.tiny())
    matcher = Matcher(model)
    before = matcher.match(picture(), picture(seed=1), POINTS).heatmaps
    with torch.no_grad():
        model.features.widen.weight.normal_()
    after = matcher.match(picture(), picture(seed=1), POINTS).heatmaps
    assert np.abs(before - after).max() > 1e-4
    np.testing.assert_array_equal(after, Matcher(model).match(picture(), picture(seed=1), POINTS).heatmaps)


def test_features_on_disk_serve_the_next_process_and_damaged_ones_are_computed_again(matcher, counted, tmp_path):
    _, encoded = counted
    pair = picture(), picture(seed=1)
    first = Matcher(matcher.model, cache_folder=tmp_path).match(*pair, POINTS).points
    assert len(encoded) == 2
    np.testing.assert_allclose(
        Matcher(matcher.model, cache_folder=tmp_path).match(*pair, POINTS).points, first, atol=1e-3
    )
    assert len(encoded) == 2
    sorted(tmp_path.iterdir())[0].write_bytes(b"damaged")
    np.testing.assert_allclose(
        Matcher(matcher.model, cache_folder=tmp_path).match(*pair, POINTS).points, first, atol=1e-3
    )
    assert len(encoded) == 3
    np.testing.assert_allclose(
        Matcher(matcher.model, cache_folder=tmp_path).match(*pair, POINTS).points, first, atol=1e-3
    )
    assert len(encoded) == 3
    other = MambaMatcher(presets.tiny())
    Matcher(other, cache_folder=tmp_path).match(*pair, POINTS)
    assert len(encoded) == 5


def test_threads_share_a_matcher(matcher, counted):
    shared, encoded = counted
    pictures = [picture(seed=seed) for seed in range(4)]
    pairs = [(a, b) for a in pictures for b in pictures]
    expected = [matcher.match(a, b, POINTS).points for a, b in pairs]
    encoded.clear()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: shared.match(*pair, POINTS).points, pairs))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)
    assert len(encoded) == 4


def test_aggregation_that_needs_both_images_is_cached_before_it(tmp_path):
    model = MambaMatcher(override(presets.tiny(), ["features=attention", "features.cross=true"]))
    matcher = Matcher(model)
    found = matcher.match(picture(), picture(seed=1), POINTS)
    images = [to_tensor(each, 84)[None] for each in (picture(), picture(seed=1))]
    with torch.inference_mode():
        units = pixels_to_unit(torch.tensor(POINTS), (90, 60))[None]
        expected = unit_to_pixels(model(*images, units)[0], (90, 60))
    np.testing.assert_allclose(found.points, expected, atol=1e-2)


@pytest.mark.parametrize(("preset", "side"), [("tiny", 84), ("efficientnet", 128)])
def test_the_fast_way_finds_what_the_plain_model_finds(preset, side):
    torch.manual_seed(0)
    model = MambaMatcher(replace(getattr(presets, preset)(), side=side))
    found = Matcher(model, low_memory=True).match(picture(), picture(seed=1), POINTS)
    images = [to_tensor(each, model.config.side)[None] for each in (picture(), picture(seed=1))]
    plain = model(*images, pixels_to_unit(torch.tensor(POINTS), (90, 60))[None])
    assert plain.requires_grad  # so nothing made for inference took part
    np.testing.assert_allclose(found.points, unit_to_pixels(plain.detach()[0], (90, 60)), atol=0.05)


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="cache_size"):
        Matcher(MambaMatcher(presets.tiny()), cache_size=1)
