"""`mambamatcher train`: train a model on pairs with keypoints."""

from pathlib import Path
from typing import Annotated

import typer

VALIDATION_SPLITS = ("selection", "val", "test")  # the first of these that a dataset has


def train(
    out: Annotated[Path, typer.Option(help="The run's folder.")],
    recipe: Annotated[str | None, typer.Option(help="A complete run by name, for example vit-s.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="What to train on, for example voc, spair, pf-pascal or synthetic.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="The model to train; paper if not given.")] = None,
    root: Annotated[Path | None, typer.Option(help="Where the data is; else MAMBAMATCHER_DATA.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Recipe changes.")] = None,
    split: Annotated[str | None, typer.Option(help="The split to train on; trn if not given.")] = None,
    validation_split: Annotated[str | None, typer.Option(help="The split to validate on.")] = None,
    validation_pairs: Annotated[
        int | None, typer.Option(min=1, help="Validate on this many of its pairs; 500 if not given.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Continue the run in the folder.")] = False,
    skip_bad: Annotated[bool, typer.Option(help="Leave unreadable items out instead of stopping.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="Processes, or GPUs, on each node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    precision: Annotated[str, typer.Option(help="As Lightning names it, for example bf16-mixed.")] = "32-true",
    accelerator: Annotated[str, typer.Option(help="As Lightning names it: auto, cpu or gpu.")] = "auto",
    profile: Annotated[bool, typer.Option(help="Write where the time goes to the run's folder.")] = False,
) -> None:
    """Train a model; the recipe is the paper's unless another is named or changed, and --resume continues a killed run.

    Example: mambamatcher train --recipe vit-s --root data --out runs/vit-s --devices 2
    """
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
            raise ConfigError("a recipe names its own model; give --recipe or --preset, not both")
        chosen = RECIPES[recipe]()
    elif dataset is None:
        raise ConfigError("there is nothing to train on; give --dataset, or --recipe with a complete run's name")
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
