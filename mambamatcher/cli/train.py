"""`mambamatcher train`: train a model on pairs with keypoints."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mambamatcher.cli.dataset_options import Root, SplitSeed
from mambamatcher.errors import ConfigError
from mambamatcher.extras import naming_extra
from mambamatcher.registry import unknown

if TYPE_CHECKING:
    from mambamatcher.datasets.records import Pair
    from mambamatcher.training.recipe import Recipe
    from mambamatcher.training.recipes import NamedRecipe
    from mambamatcher.training.run import Hardware

OWN_VALIDATION_PAIRS = 40


def train(
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    recipe: Annotated[str | None, typer.Option(help="Name of a complete recipe, for example default.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Dataset to train on, for example voc, spair, pf-pascal or synthetic; or a file of annotated images "
            "of your own."
        ),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Preset of the model to train; default: paper.")] = None,
    start: Annotated[
        str | None, typer.Option(help="Model to fine-tune: default, lite, or a saved model's folder.")
    ] = None,
    root: Root = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the recipe.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split to train on; default: that of the recipe, or trn.")] = None,
    validation_split: Annotated[
        str | None, typer.Option(help="Split to validate on; default: selection, val or test.")
    ] = None,
    validation_pairs: Annotated[
        int | None, typer.Option(min=1, help="Number of its pairs to validate on; default: that of the recipe, or 500.")
    ] = None,
    split_seed: SplitSeed = 0,
    resume: Annotated[bool, typer.Option(help="Resume the run in the folder.")] = False,
    skip_bad: Annotated[bool, typer.Option(help="Skip unreadable items instead of stopping.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="Number of processes (GPUs) per node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 1,
    precision: Annotated[str, typer.Option(help="Precision as in Lightning, for example bf16-mixed.")] = "32-true",
    accelerator: Annotated[str, typer.Option(help="Accelerator as in Lightning: auto, cpu or gpu.")] = "auto",
    profile: Annotated[bool, typer.Option(help="Write a profile of the run to its folder.")] = False,
) -> None:
    """Train a model with a named recipe, fine-tune a saved one with --start, or train as the paper does.

    --resume continues a run.

    Example: mambamatcher train --start default --dataset dogs.coco.json --root photos --out runs/dogs
    """
    with naming_extra("train"):
        from mambamatcher.datasets.benchmarks import find_dataset, is_own, read_pairs
        from mambamatcher.model.config import override
        from mambamatcher.training.data_module import TrainingPairs
        from mambamatcher.training.recipes import CHAINS
        from mambamatcher.training.run import Hardware
        from mambamatcher.training.run import train as run

    hardware = Hardware(devices=devices, nodes=nodes, precision=precision, accelerator=accelerator, profile=profile)
    if recipe in CHAINS:
        changed = [preset, start, dataset, split, validation_split, *(overrides or [])]
        if any(changed):
            raise ConfigError(
                f"the recipe {recipe} is a chain of {' and '.join(CHAINS[recipe].recipes)} and takes no "
                f"{next(filter(None, changed))}; to change one of these, train it on its own"
            )
        _train_chain(recipe, out, hardware, resume, _options(root=root, validation_pairs=validation_pairs))
        return
    chosen = _choose(recipe, preset, start, dataset)
    dataset = dataset or chosen.dataset
    benchmark = find_dataset(dataset, split_seed)
    split, validation_split = split or chosen.split, validation_split or benchmark.held_out_split
    training, validation = (
        read_pairs(dataset, each, root, skip_bad=skip_bad, split_seed=split_seed) for each in (split, validation_split)
    )
    data = TrainingPairs(
        train=training.pairs,
        validation=validation.pairs[: validation_pairs or chosen.validation_pairs],
        reference=benchmark.reference,
    )
    if is_own(dataset):
        _check_apart(training.pairs, validation.pairs, f"the splits {split} and {validation_split}")
    suited = _suited(chosen.recipe, training.pairs) if is_own(dataset) else chosen.recipe
    typer.echo(f"trained: {run(override(suited, overrides or []), data, out, hardware, resume)}")


def _options(**values: object) -> list[str]:
    """Return options of the command line for the values that are given."""
    given = {name.replace("_", "-"): value for name, value in values.items() if value not in (None, False)}
    return [word for name, value in given.items() for word in (f"--{name}", *([] if value is True else [str(value)]))]


def _train_chain(name: str, out: Path, hardware: "Hardware", resume: bool, options: Sequence[str]) -> None:
    """Train the recipes of a chain, each in a folder of its name below `out`, and save the model with its readout."""
    from mambamatcher.model.checkpoint import load_pretrained, reconfigured, save_pretrained
    from mambamatcher.model.config import override
    from mambamatcher.model.saved import CONFIG
    from mambamatcher.training.folder import LAST, MODEL, RECIPE
    from mambamatcher.training.recipes import CHAINS

    chain, last = CHAINS[name], None
    for each in chain.recipes:
        run = out / each
        if not (resume and (run / MODEL / CONFIG).exists()):
            started = _options(resume=resume and (run / RECIPE).exists())
            changes: list[str] = [] if last is None else [f"start={last}"]
            command = ["train", "--recipe", each, "--out", str(run), *options, *_options(**asdict(hardware)), *started]
            # in a process of its own, since Lightning starts this very command again for each further process
            done = subprocess.run([sys.executable, "-m", "mambamatcher", *command, *changes], check=False)
            if done.returncode:
                raise typer.Exit(done.returncode)
        last = run / LAST
    trained = load_pretrained(run / MODEL)
    model = reconfigured(trained, override(trained.config, chain.readout))
    save_pretrained(model, out / MODEL, resume, half=True, graph=model.linear and find_spec("onnxscript") is not None)
    typer.echo(f"trained: {out / MODEL}")


def _choose(recipe: str | None, preset: str | None, start: str | None, dataset: str | None) -> "NamedRecipe":
    """Return the recipe that the options ask for."""
    from mambamatcher.model.presets import PRESETS
    from mambamatcher.training.recipe import Recipe
    from mambamatcher.training.recipes import CHAINS, RECIPES, NamedRecipe, fine_tune

    given = [f"--{name}" for name, value in (("recipe", recipe), ("preset", preset), ("start", start)) if value]
    if len(given) > 1:
        raise ConfigError(
            f"{' and '.join(given)} were both given, but each defines the model to train; give one of them"
        )
    if recipe is not None:
        if recipe not in RECIPES:
            raise unknown("recipe", recipe, [*CHAINS, *RECIPES])
        return RECIPES[recipe]()
    if dataset is None:
        raise ConfigError("there is nothing to train on; give --dataset, or --recipe with the name of a recipe")
    if start is not None:
        return NamedRecipe(recipe=fine_tune(start), dataset=dataset, validation_pairs=OWN_VALIDATION_PAIRS)
    return NamedRecipe(recipe=Recipe(model=PRESETS[preset or "paper"]()), dataset=dataset, validation_pairs=500)


def _check_apart(training: "Sequence[Pair]", validation: "Sequence[Pair]", splits: str) -> None:
    """Refuse an image that is both learnt from and validated on."""
    first, second = (
        {image.path for pair in pairs for image in (pair.source, pair.target)} for pairs in (training, validation)
    )
    if both := first & second:
        raise ConfigError(f"{splits} share {len(both)} images, such as {min(both).name}; train on trn, validate on val")


def _suited(recipe: "Recipe", pairs: "Sequence[Pair]") -> "Recipe":
    """Return a recipe that mirrors no images where no name says left or right, since it could not exchange them."""
    from mambamatcher.datasets.records import has_side

    if not recipe.augmentation.flip or any(has_side(name) for pair in pairs for name in pair.names):
        return recipe
    typer.echo(
        "No point's name says left or right, so images are not mirrored in training. If points have a side, name it "
        "(left eye, L_Eye); if none has, set augmentation.flip=0.5.",
        err=True,
    )
    return replace(recipe, augmentation=replace(recipe.augmentation, flip=0.0))
