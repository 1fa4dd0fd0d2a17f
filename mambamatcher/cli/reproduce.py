"""`mambamatcher reproduce`: the paper's tables with our numbers beside the quoted ones."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.extras import naming_extra


def reproduce(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Names of tables, or `list` to print all names.")
    ],
    budget: Annotated[int | None, typer.Option(min=1, help="Training steps per row, for tables that train.")] = None,
    root: Annotated[Path | None, typer.Option(help="Folder with the benchmarks. Default: MAMBAMATCHER_DATA.")] = None,
    model: Annotated[str | None, typer.Option(help="Folder of a saved model. Default: the shipped one.")] = None,
    pf_pascal_model: Annotated[
        str | None, typer.Option(help="Folder of a model trained on PF-PASCAL, for main, per-point and generalisation.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to evaluate on.")] = "test",
    base: Annotated[
        str | None,
        typer.Option(
            help="What trained rows start from: embedded (the shipped model lite), vit-s (the paper's levels on the "
            "backbone of the shipped model default), or paper (DINOv2). By default the first that the table allows."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Evaluate only the first LIMIT pairs.")] = None,
    finished: Annotated[bool, typer.Option("--finished", help="Train nothing, show the finished rows.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the tables (JSON, Markdown, chart) and the results of trained rows.")
    ] = Path("benchmarks/results/paper"),
    runs: Annotated[Path, typer.Option(help="Folder for checkpoints, logs and predictions.")] = Path("runs/reproduce"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Measure tables of the paper and write them beside the paper's own numbers, which are marked as quoted.

    Trained rows are saved one by one. After an interruption the same command resumes, and several of the same command
    at once share the rows.

    Example: mambamatcher reproduce correlation sort-key features --budget 240 --root data
    """
    with naming_extra("paper"):
        from mambamatcher.paper.output import write_table
        from mambamatcher.paper.tables import TABLES, ReproduceOptions
        from mambamatcher.paper.tables import reproduce as make

    if tables == ["list"]:
        titles = {name: table.quoted.title for name, table in TABLES.items()}
        typer.echo(json.dumps(titles) if as_json else "\n".join(f"{name}: {titles[name]}" for name in titles))
        return
    options = ReproduceOptions(
        model=model,
        pf_pascal_model=pf_pascal_model,
        split=split,
        root=root,
        budget=budget,
        base=base,
        limit=limit,
        finished=finished,
        out=out,
        runs=runs,
    )
    for name in tables:
        TABLES[name]  # refuse an unknown name before the first table is made
    for name in tables:
        result = make(name, options)
        paths = write_table(result, out)
        typer.echo(json.dumps(asdict(result)) if as_json else result.markdown())
        if not as_json:
            typer.echo(f"wrote {', '.join(map(str, paths))}")
