"""`mambamatcher reproduce`: the paper's tables, its numbers beside ours."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="Names, or `list` to see them all.")],
    budget: Annotated[
        int | None, typer.Option(min=1, help="Training steps of each row, for tables that train.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Where the benchmarks are; MAMBAMATCHER_DATA if not given.")] = None,
    model: Annotated[str | None, typer.Option(help="A saved model's folder; the embedded one if not given.")] = None,
    split: Annotated[str, typer.Option(help="The split to evaluate on.")] = "test",
    base: Annotated[str, typer.Option(help="What trained rows start from: embedded, or paper (DINOv2).")] = "embedded",
    limit: Annotated[int | None, typer.Option(min=1, help="Evaluate only the first so many pairs.")] = None,
    finished: Annotated[bool, typer.Option("--finished", help="Train nothing: show the rows that are done.")] = False,
    out: Annotated[
        Path, typer.Option(help="For the tables (JSON, Markdown, picture) and the results of trained rows.")
    ] = Path("benchmarks/results/paper"),
    runs: Annotated[Path, typer.Option(help="For checkpoints, logs and predictions.")] = Path("runs/reproduce"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Measure a table of the paper and write it beside the paper's own numbers, which are marked as quoted.

    Rows that are trained are kept one by one: after a stop, the same command goes on with the next row, and the same
    command run twice at once shares the rows out.

    Example: mambamatcher reproduce correlation sort-key features --budget 240 --root data
    """
    from mambamatcher.paper.results import write_table
    from mambamatcher.paper.tables import TABLES, Options
    from mambamatcher.paper.tables import reproduce as make

    if tables == ["list"]:
        titles = {name: table.quoted.title for name, table in TABLES.items()}
        typer.echo(json.dumps(titles) if as_json else "\n".join(f"{name}: {titles[name]}" for name in titles))
        return
    options = Options(
        model=model,
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
        TABLES[name]  # an unknown name stops before the first table is made
    for name in tables:
        result = make(name, options)
        paths = write_table(result, out)
        typer.echo(json.dumps(asdict(result)) if as_json else result.markdown())
        if not as_json:
            typer.echo(f"wrote {', '.join(map(str, paths))}")
