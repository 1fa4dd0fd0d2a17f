"""Recipes are complete runs, and the commands that make the shipped models use them."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from subprocess import CompletedProcess

import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner

from benchmarks import make_models
from mambamatcher.cli import app
from mambamatcher.datasets.benchmarks import DATASETS
from mambamatcher.errors import ConfigError
from mambamatcher.model.checkpoint import read_config, save_pretrained
from mambamatcher.model.config import from_dict, override, to_dict
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.presets import PRESETS
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.recipes import CHAINS, RECIPES, Chain, vit_s
from mambamatcher.training.start import begin_with
from tests.helpers import build_untrained

LAST_OF_LONG_RUN = Path(__file__).parents[2] / "runs" / "vit-s" / "last.ckpt"
ON_TWO_PROCESSES = ("default", "lite", "lite-continued", "unseen")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_names_its_data_can_be_written_down_and_trains(name):
    named = RECIPES[name]()
    assert named.split in DATASETS[named.dataset].splits
    assert from_dict(Recipe, to_dict(named.recipe)) == named.recipe
    assert named.recipe.accumulation(2 if name in ON_TWO_PROCESSES else 1) >= 1
    config = named.recipe.model
    model = build_untrained(replace(config, backbone=replace(config.backbone, weights="random")))
    assert all(side % model.backbone.stride == 0 for side in named.recipe.sides)


# the shipped models were trained with the preset `efficientnet` and these overrides; a start is the folder of a run
ALL = (
    "model.backbone.trainable_blocks=13 batch_size=1 schedule=cosine keypoint_weight=0 cross_entropy_weight=1 "
    "augmentation.flip=0.5 workers=0"
)
LINEAR = "model.correlation.kind=linear"
CONTROL = (
    "seed=0 start=runs/lite-averaged model.side=320 model.transfer.blend=scores steps=100 round_steps=100 "
    "effective_batch=1 group_images=3 learning_rate=5e-4 backbone_learning_rate=5e-5 warmup_steps=10 averaging=0.97"
)
TRAINED = {
    "lite": (
        f"{LINEAR} seed=0 model.side=320 steps=900 round_steps=150 effective_batch=2 group_images=8 "
        "learning_rate=1e-3 backbone_learning_rate=2e-4 warmup_steps=50 averaging=0.995"
    ),
    "lite-continued": (
        f"{LINEAR} seed=1 model.side=384 start=runs/lite/model steps=480 round_steps=480 effective_batch=2 "
        "group_images=8 learning_rate=6e-4 backbone_learning_rate=2e-4 warmup_steps=20 averaging=0.99"
    ),
    "pf-pascal": (
        f"{LINEAR} seed=0 model.side=320 steps=240 round_steps=80 effective_batch=1 group_images=8 "
        "learning_rate=1e-3 backbone_learning_rate=2e-4 warmup_steps=20 averaging=0.98"
    ),
    "pf-pascal-continued": (
        f"{LINEAR} seed=1 model.side=320 start=runs/pf-pascal/model steps=500 round_steps=500 effective_batch=1 "
        "group_images=8 learning_rate=1e-3 backbone_learning_rate=3e-4 warmup_steps=10 averaging=0.98"
    ),
    "control-scan": CONTROL,
    "control-linear": f"{LINEAR} {CONTROL}",
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_recipe_is_key_by_key_what_its_model_was_trained_with(name):
    expected = override(Recipe(model=PRESETS["efficientnet"]()), f"{ALL} {TRAINED[name]}".split())
    assert to_dict(RECIPES[name]().recipe) == to_dict(expected)


def test_recipes_have_the_data_their_models_were_trained_with():
    found = {name: RECIPES[name]() for name in TRAINED}
    data = {name: (each.dataset, each.split, each.validation_pairs) for name, each in found.items()}
    assert data == {
        "lite": ("voc", "trn", 100),
        "lite-continued": ("voc", "trn", 100),
        "pf-pascal": ("pf-pascal", "trn", 100),
        "pf-pascal-continued": ("pf-pascal", "trn", 100),
        "control-scan": ("voc", "trn", 20),
        "control-linear": ("voc", "trn", 20),
    }


def test_the_run_without_some_keypoint_names_sees_15000_images_and_none_of_those_names():
    named = RECIPES["unseen"]()
    recipe = named.recipe
    assert recipe.steps * recipe.effective_batch * recipe.group_images == 15_000
    assert (named.dataset, named.split, recipe.start) == ("voc", "trn-seen", None)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return the verb and the parsed options of every command of every pipeline, in a folder without runs."""
    monkeypatch.chdir(tmp_path)
    verbs = get_command(app).commands
    parsed = []
    for pipeline in make_models.PIPELINES.values():
        for command in pipeline(Path("data")):
            if "mambamatcher" in command:
                verb, *arguments = command[command.index("mambamatcher") + 1 :]
                parsed.append((verb, verbs[verb].make_context(verb, arguments).params))
    return parsed


def test_pipelines_train_every_recipe_with_the_processes_it_is_for(commands):
    trained = [options for verb, options in commands if verb == "train"]
    links = {recipe for chain in CHAINS.values() for recipe in chain.recipes}
    assert {options["recipe"] for options in trained} == set(RECIPES) - links | set(CHAINS)
    for options in trained:
        assert (options["devices"] == 2) == (options["recipe"] in ON_TWO_PROCESSES)
        if options["recipe"] in RECIPES:
            override(RECIPES[options["recipe"]]().recipe, options["overrides"] or [])


def test_pipelines_start_and_export_only_from_what_they_made(commands):
    made = set()
    for verb, options in commands:
        if verb == "train":
            named = RECIPES[options["recipe"]]() if options["recipe"] in RECIPES else None
            assert named is None or named.recipe.start is None or named.recipe.start in made
            made |= {str(options["out"] / name) for name in ("model", "last.ckpt")}
        elif verb == "export":
            assert {options["model"], *map(str, options["average"] or ())} <= made
            override(PRESETS["efficientnet"](), options["overrides"] or [])
            made.add(str(options["folder"]))
        elif verb == "evaluate":
            assert options["model"] in {*made, *PRESETS}
            made.add(str(options["out"] / "report.json"))
        elif verb == "compare":
            assert {str(options["first"]), str(options["second"])} <= made


def test_a_run_resumes_only_where_it_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--resume" not in make_models.train("lite", Path("data"))
    Path("runs/lite").mkdir(parents=True)
    Path("runs/lite/recipe.json").touch()
    assert "--resume" in make_models.train("lite", Path("data"))
    assert "--resume" not in make_models.train("lite", Path("data"), run="other")


@pytest.fixture
def chain(tmp_path, monkeypatch):
    """Return a function that trains a chain of two, with the commands that it ran; each makes an untrained model."""
    ran = []

    def run(command, **_):
        words = command[command.index("train") :]
        folder = Path(words[words.index("--out") + 1])
        ran.append([word for word in words[1:] if word not in ("--precision", "32-true", "--nodes", "1")])
        if "fail" in folder.parts:
            return CompletedProcess(command, 3)
        for name in ("recipe.json", "last.ckpt"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        save_pretrained(MambaMatcher(PRESETS["tiny"]()), folder / "model", overwrite=True)
        return CompletedProcess(command, 0)

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr(
        "mambamatcher.training.recipes.CHAINS", {"both": Chain(recipes=("a", "b"), readout=("side=98",))}
    )

    def train(name, *options):
        ran.clear()
        out = tmp_path / name
        found = CliRunner().invoke(app, ["train", "--recipe", "both", "--out", str(out), "--devices", "2", *options])
        return found, ran, out

    return train


def test_a_chain_trains_its_recipes_one_after_the_other_and_reads_the_model_out(chain):
    found, ran, out = chain("run", "--root", "data", "--accelerator", "cpu")
    assert found.exit_code == 0, found.output
    shared = ["--root", "data", "--devices", "2", "--accelerator", "cpu"]
    assert ran == [
        ["--recipe", "a", "--out", str(out / "a"), *shared],
        ["--recipe", "b", "--out", str(out / "b"), *shared, f"start={out / 'a' / 'last.ckpt'}"],
    ]
    assert read_config(out / "model" / "config.json") == replace(PRESETS["tiny"](), side=98)


def test_a_chain_resumes_at_the_recipe_that_was_not_finished(chain):
    *_, out = chain("run")
    rmtree(out / "b" / "model")
    found, ran, _ = chain("run", "--resume")
    assert found.exit_code == 0, found.output
    assert [(words[1], "--resume" in words) for words in ran] == [("b", True)]


def test_a_chain_stops_where_a_recipe_fails(chain):
    found, ran, _ = chain("fail")
    assert found.exit_code == 3
    assert len(ran) == 1


def test_a_chain_takes_no_changes(chain):
    found, ran, _ = chain("run", "steps=1")
    assert isinstance(found.exception, ConfigError)
    assert "a chain of a and b and takes no steps=1" in str(found.exception)
    assert ran == []


# keys and shapes of a checkpoint of the long run `vit-s`, which was started at commit 1bea02c
LONG_RUN = "716f4784db24addf3a5d57f90a207516f46659841d75e0a1fc7558061edb0c6b"


def untrained_vit_s():
    config = vit_s().recipe.model
    return replace(config, backbone=replace(config.backbone, weights="random"))


def test_checkpoints_of_the_long_run_fit_the_model_of_today():
    state = build_untrained(untrained_vit_s()).state_dict()
    listing = "\n".join(f"{key} {tuple(value.shape)}" for key, value in sorted(state.items()))
    assert sha256(listing.encode()).hexdigest() == LONG_RUN


@pytest.mark.skipif(not LAST_OF_LONG_RUN.exists(), reason="the long run is not on this machine")
def test_the_last_checkpoint_of_the_long_run_loads():
    model = MambaMatcher(untrained_vit_s())
    before = model.features.project.weight.clone()
    begin_with(model, LAST_OF_LONG_RUN)
    assert not torch.equal(model.features.project.weight, before)
