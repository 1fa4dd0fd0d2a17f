import json
import os
import zipfile
from dataclasses import replace
from shutil import copytree

import numpy as np
import pytest
import torch

from mambamatcher import Matcher, presets
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.dataset import PairDataset
from mambamatcher.errors import ConfigError, InputError, WeightsError
from mambamatcher.io.atomic import open_lines
from mambamatcher.matching.scores import WholeMap
from mambamatcher.matching.transfer import read_out
from mambamatcher.model.checkpoint import load_pretrained
from mambamatcher.model.config import override
from mambamatcher.model.correlation import LinearAggregation, MeanAggregation
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.transfer_settings import Transfer
from mambamatcher.training import folder
from mambamatcher.training.data_module import TrainingPairs
from mambamatcher.training.folder import BEST, LAST, LOCK, MODEL, RECIPE, find_run
from mambamatcher.training.module import TrainingError, TrainingModule
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.run import Hardware, train
from mambamatcher.training.start import begin_with, centre_presence

CPU = Hardware(accelerator="cpu")


@pytest.fixture(scope="module")
def pairs(photos):
    return TrainingPairs(
        train=read_pairs("voc-keypoints", "trn", photos).pairs,
        validation=read_pairs("voc-keypoints", "selection", photos).pairs[:6],
    )


def recipe(*changes: str) -> Recipe:
    small = ["steps=2", "round_steps=1", "effective_batch=2", "batch_size=2", "workers=0"]
    return override(Recipe(model=presets.tiny()), [*small, *changes])


def test_a_run_leaves_logs_pictures_checkpoints_and_a_model_that_matches(pairs, tmp_path):
    model = train(recipe(), pairs, tmp_path / "run", CPU)
    assert {"best.ckpt", "last.ckpt", "recipe.json", "model", "csv", "tensorboard"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    assert {"matches/0", "heat/0"} <= set(board.Tags()["images"])
    assert {"loss", "validation_pck"} <= set(board.Tags()["scalars"])
    matcher = Matcher.from_pretrained(model)
    pair = pairs.validation[0]
    assert matcher.match(pair.source.path, pair.target.path, pair.points()[0]).points.shape == pair.points()[0].shape


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(pairs, tmp_path):
    states = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(recipe(f"seed={seed}"), pairs, tmp_path / name, CPU)
        states.append(torch.load(tmp_path / name / LAST, weights_only=True)["state_dict"])
    trained = [key for key in states[0] if "features" in key]
    assert all(torch.equal(states[0][key], states[1][key]) for key in trained)
    assert not any(torch.equal(states[0][key], states[2][key]) for key in trained)


def test_a_folder_is_not_used_twice_and_another_recipe_does_not_continue_it(pairs, tmp_path):
    train(recipe(), pairs, tmp_path / "run", CPU)
    before = (tmp_path / "run" / LAST).read_bytes()
    with pytest.raises(InputError, match="--resume"):
        train(recipe(), pairs, tmp_path / "run", CPU)
    with pytest.raises(ConfigError, match=r"learning_rate was 0.001 and is now 0.002"):
        train(recipe("learning_rate=0.002"), pairs, tmp_path / "run", CPU, resume=True)
    with pytest.raises(InputError, match="no run to resume"):
        train(recipe(), pairs, tmp_path / "other", CPU, resume=True)
    assert (tmp_path / "run" / LAST).read_bytes() == before


@pytest.mark.parametrize("name", [LAST, BEST, MODEL])
def test_files_that_are_not_of_the_run_are_not_replaced(name, pairs, tmp_path):
    foreign = tmp_path / "run" / name
    foreign.parent.mkdir()
    foreign.write_text("mine")
    with pytest.raises(InputError, match=f"{name} exists already"):
        train(recipe(), pairs, tmp_path / "run", CPU)
    assert foreign.read_text() == "mine"
    assert not (tmp_path / "run" / RECIPE).exists()


def test_two_processes_do_not_train_in_one_folder(pairs, tmp_path, monkeypatch):
    train(recipe(), pairs, tmp_path / "run", CPU)
    before = (tmp_path / "run" / LAST).read_bytes()
    monkeypatch.setattr(folder, "ORPHAN_SECONDS", 0.0)
    with open_lines(tmp_path / "run" / LOCK), pytest.raises(InputError, match="another process"):
        train(recipe(), pairs, tmp_path / "run", CPU, resume=True)
    assert (tmp_path / "run" / LAST).read_bytes() == before


@pytest.fixture(scope="module")
def finished(pairs, tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run"
    train(recipe("averaging=0.5"), pairs, path, CPU)
    return path


def resume(finished, path, damage):
    copytree(finished, path)
    damage(path)
    find_run(path, recipe("averaging=0.5"), MambaMatcher(presets.tiny()))


def test_an_intact_run_can_be_resumed(finished, tmp_path):
    resume(finished, tmp_path / "run", lambda run: None)


def test_a_checkpoint_with_a_flipped_bit_is_not_resumed(finished, tmp_path):
    def flip(run):
        content = bytearray((run / LAST).read_bytes())
        largest = max(zipfile.ZipFile(run / LAST).infolist(), key=lambda each: each.file_size)
        content[largest.header_offset + largest.file_size // 2] ^= 1
        (run / LAST).write_bytes(content)

    with pytest.raises(InputError, match=r"last\.ckpt is damaged"):
        resume(finished, tmp_path / "run", flip)


def test_a_truncated_checkpoint_is_not_resumed(finished, tmp_path):
    with pytest.raises(WeightsError, match=r"last\.ckpt"):
        resume(finished, tmp_path / "run", lambda run: os.truncate(run / LAST, 10_000))


@pytest.mark.parametrize("part", ["optimizer_states", "callbacks", "current_model_state"])
def test_a_checkpoint_without_one_of_its_parts_is_not_resumed(part, finished, tmp_path):
    def drop(run):
        saved = torch.load(run / LAST, weights_only=True)
        del saved[part]
        torch.save(saved, run / LAST)

    with pytest.raises(InputError, match=f"it has no {part}"):
        resume(finished, tmp_path / "run", drop)


def test_a_checkpoint_of_another_architecture_is_not_resumed(finished, tmp_path):
    def narrow(run):
        saved = torch.load(run / LAST, weights_only=True)
        saved["state_dict"]["model.correlation.project.weight"] = torch.zeros(1, 3)
        torch.save(saved, run / LAST)

    with pytest.raises(WeightsError, match=r"made for another model: 'correlation\.project\.weight'"):
        resume(finished, tmp_path / "run", narrow)


def test_a_removed_best_checkpoint_is_named(finished, tmp_path):
    with pytest.raises(InputError, match=r"best\.ckpt was removed"):
        resume(finished, tmp_path / "run", lambda run: (run / BEST).unlink())


def test_sides_that_the_backbone_cannot_divide_are_refused_before_anything_is_written(pairs, tmp_path):
    with pytest.raises(ConfigError, match="side 90 does not divide into patches of 14; use 84"):
        train(recipe("sides=[84, 90]"), pairs, tmp_path / "run", CPU)
    assert not (tmp_path / "run").exists()


def test_an_image_lost_during_training_is_one_sentence(pairs, tmp_path):
    lost = tmp_path / "lost.png"
    gone = [replace(pair, source=replace(pair.source, path=lost)) for pair in pairs.train]
    with pytest.raises(InputError) as caught:
        train(recipe("workers=1"), replace(pairs, train=gone), tmp_path / "run", CPU)
    assert str(lost) in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_nan_loss_stops_the_run_and_what_was_saved_stays_usable(pairs, tmp_path, monkeypatch):
    original = TrainingModule.training_step

    def step(self, batch, index):
        if self.global_step == 1:
            batch.target_points.fill_(torch.nan)
        return original(self, batch, index)

    monkeypatch.setattr(TrainingModule, "training_step", step)
    with pytest.raises(TrainingError, match="loss became nan at step 1"):
        train(recipe(), pairs, tmp_path / "run", CPU)
    monkeypatch.undo()
    train(recipe(), pairs, tmp_path / "run", CPU, resume=True)
    assert torch.load(tmp_path / "run" / LAST, weights_only=True)["global_step"] == 2


def test_a_full_disk_while_saving_is_a_clear_error_and_the_last_state_stays(pairs, tmp_path, monkeypatch):
    import lightning

    original = lightning.Trainer.save_checkpoint

    def save(self, path, *args, **kwargs):
        original(self, path, *args, **kwargs)
        if self.global_step == 2:
            path.write_bytes(path.read_bytes()[:100])
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(lightning.Trainer, "save_checkpoint", save)
    with pytest.raises(TrainingError, match=r"No space left on device.*--resume"):
        train(recipe(), pairs, tmp_path / "run", CPU)
    assert torch.load(tmp_path / "run" / LAST, weights_only=True)["global_step"] == 1
    assert not list((tmp_path / "run").glob("*.part"))


def test_a_full_disk_while_drawing_is_as_clear_and_an_output_that_is_a_file_too(pairs, tmp_path, monkeypatch):
    def add_image(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter.add_image", add_image)
    with pytest.raises(TrainingError, match=r"No space left on device.*--resume"):
        train(recipe(), pairs, tmp_path / "run", CPU)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="as a folder"):
        train(recipe(), pairs, tmp_path / "file", CPU)


def test_a_run_can_be_branched_off_from_another_ones_checkpoint(pairs, tmp_path):
    averaged = recipe("averaging=0.5", "sides=[84, 56]")
    train(averaged, pairs, tmp_path / "run", CPU)
    checkpoint = tmp_path / "run" / LAST
    model = MambaMatcher(averaged.model)
    begin_with(model, checkpoint)
    saved = torch.load(checkpoint, weights_only=True)["state_dict"]
    assert all(torch.equal(value, saved[f"model.{key}"]) for key, value in model.state_dict().items())
    train(recipe(f"start={checkpoint}", "schedule=cosine"), pairs, tmp_path / "branch", CPU)
    assert (tmp_path / "branch" / "model").is_dir()


def test_a_frozen_backbones_features_can_be_cached_while_weights_are_averaged(pairs, tmp_path):
    train(recipe("averaging=0.5", "augment=false", "cache_gigabytes=0.1"), pairs, tmp_path / "run", CPU)
    assert list((tmp_path / "run" / "features").glob("*.safetensors"))


@pytest.mark.parametrize("content", [b"", b"nothing of the kind", None])
def test_a_file_that_is_no_checkpoint_is_refused(content, pairs, tmp_path):
    path = tmp_path / "some.ckpt"
    torch.save({"other": torch.zeros(1)}, path) if content is None else path.write_bytes(content)
    with pytest.raises(WeightsError, match=r"some\.ckpt"):
        train(recipe(f"start={path}"), pairs, tmp_path / "run", CPU)


def test_a_model_with_nothing_to_train_is_refused(pairs, tmp_path):
    with pytest.raises(TrainingError, match="nothing to train"):
        train(recipe("model.features=none", "model.correlation=mean"), pairs, tmp_path / "run", CPU)


def test_the_recipe_is_written_down_with_every_key(pairs, tmp_path):
    train(recipe("clip_norm=0.5"), pairs, tmp_path / "run", CPU)
    written = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert written["clip_norm"] == 0.5
    assert written["model"]["backbone"]["kind"] == "vit"


def test_presence_is_learnt_from_a_threshold_between_present_and_absent_points(pairs):
    model = MambaMatcher(replace(presets.tiny(), correlation=LinearAggregation()))
    hidden = [pair for pair in pairs.train if set(pair.source.keypoints) - set(pair.target.keypoints)]
    assert hidden
    centre_presence(model, pairs.train)
    temperature, side = model.config.transfer.temperature, model.config.side
    logits: dict[str, list[float]] = {"present": [], "absent": []}
    for pair in pairs.train[:64]:
        sample = PairDataset([pair], side)[0]
        with torch.no_grad():
            first, second = (model.encode(image[None]) for image in (sample.source_image, sample.target_image))
            refined = model.correlate(first, second)
        for kind, points in (("present", sample.source_points), ("absent", sample.unmatched_points)):
            if not len(points):
                continue
            rows = read_out(WholeMap(refined[0].numpy()), points.numpy(), Transfer(radius=0.01, blend="scores")).scores
            logits[kind] += np.log(np.exp(temperature * rows.astype(np.float64)).sum(axis=(1, 2))).tolist()
    assert (np.mean(logits["present"]) + np.mean(logits["absent"])) / 2 == pytest.approx(0, abs=1e-3)


def test_presence_needs_a_bias_and_absent_points(pairs):
    with pytest.raises(ConfigError, match="an aggregation with a bias"):
        centre_presence(MambaMatcher(replace(presets.tiny(), correlation=MeanAggregation())), pairs.train)
    same = [pair for pair in pairs.train if not set(pair.source.keypoints) - set(pair.target.keypoints)]
    with pytest.raises(ConfigError, match="keypoints that the target does not show"):
        centre_presence(MambaMatcher(replace(presets.tiny(), correlation=LinearAggregation())), same[:2])


def test_a_run_with_the_loss_of_presence_moves_the_bias(pairs, tmp_path):
    changes = ("model.correlation=linear", "cross_entropy_weight=1", "absence_weight=0.5")
    train(recipe(*changes), pairs, tmp_path / "run", Hardware(accelerator="cpu"))
    trained = load_pretrained(tmp_path / "run" / MODEL)
    assert trained.correlation.get_parameter("project.bias").item() != 0
