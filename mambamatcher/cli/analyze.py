"""`mambamatcher analyze`: reproduce the paper's figures with any model."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.extras import naming_extra


def analyze(
    figures: Annotated[
        list[str], typer.Argument(metavar="FIGURE...", help="Names of figures, or `list` to print all names.")
    ],
    model: Annotated[
        list[str] | None, typer.Option(help="Folder of a saved model; repeat it to compare. Default: lite.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="Benchmark to take pairs from.")] = "voc",
    split: Annotated[str, typer.Option(help="Split of the benchmark.")] = "selection",
    root: Annotated[Path | None, typer.Option(help="Folder with the benchmarks. Default: MAMBAMATCHER_DATA.")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Number of pairs, taken at equal distances.")] = 60,
    out: Annotated[Path, typer.Option(help="Folder for the JSON, Markdown and image files.")] = Path("runs/figures"),
    picture: Annotated[bool, typer.Option(help="Draw the figure, which shows photos, or write only numbers.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Draw figures of the paper with pairs of a benchmark, and write the numbers behind them.

    Example: mambamatcher analyze heatmaps removal --root data --pairs 60
    """
    with naming_extra("paper"):
        from mambamatcher.paper.figure_inputs import load_inputs
        from mambamatcher.paper.figures import FIGURES
        from mambamatcher.paper.output import write_figure

    if figures == ["list"]:
        typer.echo(json.dumps(list(FIGURES)) if as_json else "\n".join(FIGURES))
        return
    chosen = {name: FIGURES[name] for name in figures}
    inputs = load_inputs(model or [], dataset, split, root, pairs)
    for make in chosen.values():
        result = make(inputs)
        paths = write_figure(result, out, with_image=picture)
        if as_json:
            typer.echo(json.dumps({"name": result.name, "numbers": result.numbers}))
        else:
            typer.echo(f"{result.text}\nwrote {', '.join(map(str, paths))}")
