"""`mambamatcher analyze`: the paper's figures, made anew with any of our models."""

import json
from pathlib import Path
from typing import Annotated

import typer


def analyze(
    figures: Annotated[list[str], typer.Argument(metavar="FIGURE...", help="Names, or `list` to see them all.")],
    model: Annotated[
        list[str] | None, typer.Option(help="A saved model's folder, repeated to compare; else the embedded one.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="The benchmark that pairs are taken from.")] = "voc",
    split: Annotated[str, typer.Option(help="Its split.")] = "selection",
    root: Annotated[Path | None, typer.Option(help="Where the benchmarks are; MAMBAMATCHER_DATA if not given.")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="How many pairs, taken at equal distances.")] = 60,
    out: Annotated[Path, typer.Option(help="For JSON, Markdown and the picture.")] = Path("runs/figures"),
    picture: Annotated[
        bool, typer.Option(help="Draw it, or write only the numbers, which hold no photographs.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Make a figure of the paper with real pairs, and write the numbers behind it.

    Example: mambamatcher analyze heatmaps removal --root data --pairs 60
    """
    from mambamatcher.paper.figure_inputs import make_subject
    from mambamatcher.paper.figures import FIGURES
    from mambamatcher.paper.results import write_figure

    if figures == ["list"]:
        typer.echo(json.dumps(list(FIGURES)) if as_json else "\n".join(FIGURES))
        return
    chosen = {name: FIGURES[name] for name in figures}
    subject = make_subject(model or [], dataset, split, root, pairs)
    for make in chosen.values():
        result = make(subject)
        paths = write_figure(result, out, with_picture=picture)
        if as_json:
            typer.echo(json.dumps({"name": result.name, "numbers": result.numbers}))
        else:
            typer.echo(f"{result.text}\nwrote {', '.join(map(str, paths))}")
