"""`mambamatcher info`: parameters and operations of each stage of a model."""

import json
from dataclasses import asdict
from typing import Annotated

import typer


def info(
    model: Annotated[
        str, typer.Option("--model", "--preset", help="default, lite, a preset's name, or a saved model's folder.")
    ] = "paper",
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the configuration.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show parameters and operations of each stage for one pair of images, beside the paper's figures.

    Example: mambamatcher info --model paper features.kernel_size=5
    """
    # imported here, so that --help does not import torch
    from rich.console import Console
    from rich.table import Table

    from mambamatcher.benchmark.complexity import stages
    from mambamatcher.model.checkpoint import find_config
    from mambamatcher.model.config import override, to_dict

    config = override(find_config(model), overrides or [])
    counted = stages(config)
    if as_json:
        typer.echo(json.dumps({"config": to_dict(config), "stages": [asdict(stage) for stage in counted]}, indent=2))
        return
    table = Table(title=f"{model}: {config.side} px, one pair (a multiply-add is two operations)")
    for column in ("stage", "parameters", "paper", "operations", "paper"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage in counted:
        table.add_row(
            stage.name,
            f"{stage.parameters:,}",
            stage.paper_parameters or "",
            scaled(stage.flops),
            stage.paper_flops or "",
        )
    console = Console(markup=False)
    console.print(table)
    if any(stage.paper_parameters for stage in counted):
        console.print(
            "Columns 'paper' are quoted from its tables. The scan's 23.2 G is the printed total of a formula whose "
            "terms add up to 8.2 G."
        )


def scaled(flops: int) -> str:
    """Format a number of operations with three digits and a unit."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if flops >= size:
            return f"{flops / size:.3g} {unit}"
    return str(flops)
