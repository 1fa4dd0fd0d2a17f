"""`train --start` fine-tunes a saved model on a file of annotated images, and the result is ready to use."""

import json
import re
from dataclasses import replace
from pathlib import Path
from shutil import copyfile

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from mambamatcher import Matcher, presets
from mambamatcher.cli import app
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.errors import MambaMatcherError
from mambamatcher.evaluation.pck import Targets, relative_errors
from mambamatcher.matching.confidence import CALIBRATION, Calibration, load_calibration, save_calibration
from mambamatcher.model.checkpoint import build_empty, load_pretrained, save_pretrained
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.saved import CONFIG, GRAPH, INT8_GRAPH, SHIPPED
from mambamatcher.training.recipes import fine_tune
from mambamatcher.training.start import inherit
from tests.datasets.own_files import write_own

SHORT = ("steps=2", "round_steps=1", "group_images=3")
OWN = Calibration(bias=-1.0, peak=0.5, entropy=-2.0, agreement=0.25, threshold=0.3)


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """A saved model with a calibration, whose backbone came from a file that is not here any more."""
    folder = tmp_path_factory.mktemp("start") / "model"
    torch.manual_seed(0)
    model = MambaMatcher(presets.tiny())
    model.config = replace(model.config, backbone=replace(model.config.backbone, weights="/gone/weights"))
    save_pretrained(model, folder)
    save_calibration(OWN, folder)
    return folder


def run(*words: object) -> Result:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception:
        raise done.exception
    return done


@pytest.fixture(scope="module")
def tuned(start, tmp_path_factory) -> tuple[Path, Path, Path, str]:
    """The file, its images, the run and what the command printed."""
    folder = tmp_path_factory.mktemp("tuned")
    file, images = write_own(folder, 12)
    printed = run("train", "--start", start, "--dataset", file, "--root", images, "--out", folder / "run", *SHORT)
    return file, images, folder / "run", printed.stderr


def test_the_result_has_other_weights_and_the_configuration_and_calibration_of_its_start(start, tuned):
    model = tuned[2] / "model"
    before, after = load_pretrained(start), load_pretrained(model)
    assert after.config == before.config
    assert any(not torch.equal(value, after.state_dict()[key]) for key, value in before.state_dict().items())
    assert load_calibration(model) == OWN


def test_the_result_matches_is_evaluated_on_held_out_images_and_calibrated(tuned, tmp_path):
    file, images, folder, _ = tuned
    model = folder / "model"
    run("match", images / "000.png", images / "001.png", "--model", model, "--points", "20,20", "--json")
    chosen = ("--dataset", file, "--root", images)
    found = json.loads(run("evaluate", model, *chosen, "--out", tmp_path / "out", "--json").stdout)
    assert (found["split"], found["pairs"]) == ("val", len(read_pairs(str(file), "val", images).pairs))
    found = json.loads(run("calibrate", model, *chosen, "--split", "all", "--out", tmp_path / "c", "--json").stdout)
    assert found["pairs"] == 12 * 11


def test_the_score_of_the_start_is_printed_first_and_is_that_of_the_start(start, tuned):
    file, images, _, printed = tuned
    matcher, shares = Matcher.from_pretrained(start), []
    for pair in read_pairs(str(file), "val", images).pairs[:40]:
        points, truth = pair.points()
        targets = Targets(
            points=truth[None],
            present=torch.ones(1, len(truth), dtype=torch.bool).numpy(),
            size=torch.tensor([pair.target.size]).numpy(),
            box=torch.tensor([pair.target.bbox]).numpy(),
            box_present=torch.ones(1, dtype=torch.bool).numpy(),
        )
        found = matcher.match(pair.source.path, pair.target.path, points).points
        shares.append((relative_errors(found[None], targets, "bbox")[0] <= 0.1).mean())
    lines = printed.splitlines()
    at = lines.index(f"start: validation PCK@0.10 {100 * sum(shares) / len(shares):.2f}")
    assert lines[at + 1].startswith("step 1/2")


def test_a_finished_run_can_be_resumed_and_keeps_a_calibration_fitted_since(start, tuned):
    file, images, folder, _ = tuned
    fitted = replace(OWN, threshold=0.7)
    save_calibration(fitted, folder / "model", overwrite=True)
    chosen = ("--dataset", file, "--root", images, "--out", folder, "--resume")
    assert "start: validation" not in run("train", "--start", start, *chosen, *SHORT).stderr
    assert load_calibration(folder / "model") == fitted
    save_calibration(OWN, folder / "model", overwrite=True)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_can_be_started_from_at_a_smaller_side(name):
    recipe = fine_tune(name)
    assert recipe.start == name
    assert recipe.model == load_pretrained(name).config
    (side,) = recipe.sides
    assert 0.6 * recipe.model.side < side < 0.75 * recipe.model.side
    assert side % build_empty(recipe.model).backbone.stride == 0


def test_graphs_are_taken_over_where_they_fit_the_new_model(tmp_path):
    model = load_pretrained("default")
    save_pretrained(model, tmp_path / "same")
    inherit("default", tmp_path / "same")
    for name in (GRAPH, INT8_GRAPH, CALIBRATION):
        assert (tmp_path / "same" / name).read_bytes() == (SHIPPED["default"] / name).read_bytes()
    copyfile(tmp_path / "same" / "model.safetensors", _made(tmp_path / "other") / "model.safetensors")
    content = json.loads((tmp_path / "same" / CONFIG).read_text())
    content["model"]["side"] = 280
    (tmp_path / "other" / CONFIG).write_text(json.dumps(content))
    inherit("default", tmp_path / "other")
    assert (tmp_path / "other" / CALIBRATION).exists()
    assert not (tmp_path / "other" / GRAPH).exists()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_names_without_a_side_turn_mirroring_off_and_say_so(start, tmp_path):
    file, images = write_own(tmp_path, 8, names=("tip", "stem", "vein"))
    chosen = ("--start", start, "--dataset", file, "--root", images)
    printed = run("train", *chosen, "--out", tmp_path / "plain", *SHORT)
    assert "No point's name says left or right" in printed.stderr
    assert json.loads((tmp_path / "plain" / "recipe.json").read_text())["augmentation"]["flip"] == 0.0
    run("train", *chosen, "--out", tmp_path / "asked", *SHORT, "augmentation.flip=0.5")
    assert json.loads((tmp_path / "asked" / "recipe.json").read_text())["augmentation"]["flip"] == 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--start", "default"), "nothing to train on"),
        (("--start", "defualt", "--dataset", "FILE"), "unknown model 'defualt'. Did you mean 'default'?"),
        (("--start", "EMPTY", "--dataset", "FILE"), "is not a saved model: it has no model.safetensors"),
        (("--start", "default", "--preset", "tiny", "--dataset", "FILE"), "--preset and --start were both given"),
        (("--start", "lite", "--dataset", "FILE", "--split", "all"), "share 3 images"),
        (("--start", "lite", "--dataset", "FILE", "--root", "EMPTY"), "none of the 8 images"),
        (("--start", "lite", "--dataset", "gone.csv"), "No such file"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence_and_nothing_is_written(words, message, tmp_path):
    file, images = write_own(tmp_path, 8)
    (tmp_path / "empty").mkdir()
    root = () if "--root" in words else ("--root", images)
    named = {"FILE": file, "EMPTY": tmp_path / "empty"}
    with pytest.raises(MambaMatcherError, match=re.escape(message)) as raised:
        run("train", *(named.get(word, word) for word in words), *root, "--out", tmp_path / "run", *SHORT)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()
