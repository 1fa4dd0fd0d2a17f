"""`mambamatcher train`: train a model on pairs with keypoints."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.errors import BackendError

VALIDATION_SPLITS = ("selection", "val", "test")  # the first of these that the dataset has is the default


def train(
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    recipe: Annotated[str | None, typer.Option(help="Name of a complete recipe, for example vit-s.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Dataset to train on, for example voc, spair, pf-pascal or synthetic.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Preset of the model to train; default: paper.")] = None,
    root: Annotated[Path | None, typer.Option(help="Folder of the datasets; default: MAMBAMATCHER_DATA.")] = None,
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
    resume: Annotated[bool, typer.Option(help="Resume the run in the folder.")] = False,
    skip_bad: Annotated[bool, typer.Option(help="Skip unreadable items instead of stopping.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="Number of processes (GPUs) per node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 1,
    precision: Annotated[str, typer.Option(help="Precision as in Lightning, for example bf16-mixed.")] = "32-true",
    accelerator: Annotated[str, typer.Option(help="Accelerator as in Lightning: auto, cpu or gpu.")] = "auto",
    profile: Annotated[bool, typer.Option(help="Write a profile of the run to its folder.")] = False,
) -> None:
    """Train a model with a named recipe, or with the paper's on the dataset and model given; --resume continues a run.

    Example: mambamatcher train --recipe vit-s --root data --out runs/vit-s --devices 2
    """
    require_training()
    from mambamatcher.datasets.benchmarks import DATASETS, read_pairs
    from mambamatcher.errors import ConfigError
    from mambamatcher.model.config import override
    from mambamatcher.model.presets import PRESETS
    from mambamatcher.training.data_module import TrainingPairs
    from mambamatcher.training.recipe import Recipe
    from mambamatcher.training.recipes import RECIPES, NamedRecipe
    from mambamatcher.training.run import Hardware
    from mambamatcher.training.run import train as run

    if recipe is not None:
        if preset is not None:
            raise ConfigError(
                "--recipe and --preset were both given, but a recipe defines its own model; give one of them"
            )
        chosen = RECIPES[recipe]()
    elif dataset is None:
        raise ConfigError("there is nothing to train on; give --dataset, or --recipe with the name of a recipe")
    else:
        chosen = NamedRecipe(recipe=Recipe(model=PRESETS[preset or "paper"]()), dataset=dataset, validation_pairs=500)
    changed = override(chosen.recipe, overrides or [])
    dataset = dataset or chosen.dataset
    benchmark = DATASETS[dataset]
    validation_split = validation_split or next(name for name in VALIDATION_SPLITS if name in benchmark.splits)
    training = read_pairs(dataset, split or chosen.split, root, skip_bad=skip_bad)
    validation = read_pairs(dataset, validation_split, root, skip_bad=skip_bad)
    data = TrainingPairs(
        train=training.pairs,
        validation=validation.pairs[: validation_pairs or chosen.validation_pairs],
        reference=benchmark.reference,
    )
    hardware = Hardware(devices=devices, nodes=nodes, precision=precision, accelerator=accelerator, profile=profile)
    typer.echo(f"trained: {run(changed, data, out, hardware, resume)}")


def require_training() -> None:
    """Check that the extra `train` is installed.

    Raises:
        BackendError: A package of it is missing.
    """
    for name in ("lightning", "torchmetrics", "tensorboard"):
        if find_spec(name) is None:
            raise BackendError(f"{name} is missing; install it with: pip install 'mambamatcher[train]'")
