import json

import pytest
import torch

from mambamatcher import Matcher, presets
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.errors import ConfigError, InputError, WeightsError
from mambamatcher.model.config import override
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.training.callbacks import LAST
from mambamatcher.training.data_module import TrainingPairs
from mambamatcher.training.module import TrainingError, TrainingModule
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.run import Hardware, train
from mambamatcher.training.start import begin_with

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
