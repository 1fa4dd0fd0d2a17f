"""`mambamatcher train`: train a model on pairs with keypoints."""

from pathlib import Path
from typing import Annotated

import typer

VALIDATION_SPLITS = ("selection", "val", "test")  # the first of these that a dataset has


def train(
    dataset: Annotated[str, typer.Option(help="What to train on, for example voc, spair, pf-pascal or synthetic.")],
    out: Annotated[Path, typer.Option(help="The run's folder.")],
    preset: Annotated[str, typer.Option(help="The model to start from.")] = "paper",
    root: Annotated[Path | None, typer.Option(help="Where the data is; else MAMBAMATCHER_DATA.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Recipe changes.")] = None,
    split: Annotated[str, typer.Option(help="The split to train on.")] = "trn",
    validation_split: Annotated[str | None, typer.Option(help="The split to validate on.")] = None,
    validation_pairs: Annotated[int, typer.Option(min=1, help="Validate on this many of its pairs.")] = 500,
    resume: Annotated[bool, typer.Option(help="Continue the run in the folder.")] = False,
    skip_bad: Annotated[bool, typer.Option(help="Leave unreadable items out instead of stopping.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="Processes, or GPUs, on each node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    precision: Annotated[str, typer.Option(help="As Lightning names it, for example bf16-mixed.")] = "32-true",
    accelerator: Annotated[str, typer.Option(help="As Lightning names it: auto, cpu or gpu.")] = "auto",
    profile: Annotated[bool, typer.Option(help="Write where the time goes to the run's folder.")] = False,
) -> None:
    """Train a model; the recipe is the paper's unless changed, and a killed run continues with --resume.

    Example: mambamatcher train --preset lite --dataset voc --root data --out runs/lite steps=4000 learning_rate=5e-4
    """
    from mambamatcher.config import override
    from mambamatcher.data.benchmarks import DATASETS, read_pairs
    from mambamatcher.presets import PRESETS
    from mambamatcher.training.data import TrainingPairs
    from mambamatcher.training.recipe import Recipe
    from mambamatcher.training.run import Hardware
    from mambamatcher.training.run import train as run

    recipe = override(Recipe(model=PRESETS[preset]()), overrides or [])
    benchmark = DATASETS[dataset]
    validation_split = validation_split or next(name for name in VALIDATION_SPLITS if name in benchmark.splits)
    training = read_pairs(dataset, split, root, skip_bad=skip_bad)
    validation = read_pairs(dataset, validation_split, root, skip_bad=skip_bad)
    data = TrainingPairs(
        train=training.pairs, validation=validation.pairs[:validation_pairs], reference=benchmark.reference
    )
    hardware = Hardware(devices=devices, nodes=nodes, precision=precision, accelerator=accelerator, profile=profile)
    typer.echo(f"trained: {run(recipe, data, out, hardware, resume)}")
