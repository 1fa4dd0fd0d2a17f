"""`mambamatcher benchmark`: what things cost on this machine, beside their alternatives."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.errors import ConfigError

app = typer.Typer(name="benchmark", help="Measure time and memory on this machine.", no_args_is_help=True)


@app.callback()
def benchmark() -> None:
    """Measure time and memory on this machine."""


def _numbers(text: str, option: str) -> tuple[int, ...]:
    """Read whole numbers separated by commas."""
    try:
        numbers = tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise ConfigError(f"{option} must be whole numbers separated by commas, got {text!r}") from error
    if min(numbers) < 1:
        raise ConfigError(f"{option} must be at least 1, got {min(numbers)}")
    return numbers


@app.command()
def scan(
    grids: Annotated[str, typer.Option(help="Sides of the feature grids, separated by commas.")] = "17,30,40,50,60",
    repeats: Annotated[int, typer.Option(min=1, help="Runs per contestant; the fastest counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    save: Annotated[Path | None, typer.Option(help="A folder for scan.json and scan.md.")] = None,
) -> None:
    """Compare the selective scan and the fused refinement with their alternatives, on the same tensors.

    Example: mambamatcher benchmark scan --grids 17,30 --json
    """
    from mambamatcher.benchmark.report import as_line, as_markdown
    from mambamatcher.benchmark.scan import benchmark_scan, report

    rows = []
    for row in benchmark_scan(_numbers(grids, "--grids"), repeats):
        rows.append(row)
        if not as_json:
            typer.echo(as_line(row))
    found = report(rows)
    text = json.dumps(found.as_dict(), indent=2)
    if as_json:
        typer.echo(text)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / "scan.json").write_text(text + "\n")
        (save / "scan.md").write_text(as_markdown(found))


@app.command()
def growth(
    small: Annotated[int, typer.Option(min=2, help="Side of the small feature grid.")] = 30,
    large: Annotated[int, typer.Option(min=2, help="Side of the large feature grid.")] = 60,
    turns: Annotated[int, typer.Option(min=1, help="How often each is measured; the median counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Measure whether the scan and the fused refinement take time in proportion to their tokens.

    Example: mambamatcher benchmark growth --small 20 --large 40
    """
    from mambamatcher.benchmark.growth import benchmark_growth, report

    if large <= small:
        raise ConfigError(f"--large must be larger than --small {small}, got {large}")
    rows = []
    for row in benchmark_growth(small, large, turns):
        rows.append(row)
        if not as_json:
            typer.echo(row.as_line())
    if as_json:
        typer.echo(json.dumps(report(rows), indent=2))


@app.command()
def pair(
    preset: Annotated[str, typer.Option(help="Which model; its backbone gets random weights.")] = "paper",
    sides: Annotated[str, typer.Option(help="Sides of the images, separated by commas.")] = "238,420,560,700,840",
    repeats: Annotated[int, typer.Option(min=1, help="Runs per stage; the fastest counts.")] = 3,
    against: Annotated[
        Path | None, typer.Option(help="The straightforward version, benchmarks/straightforward.py.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    save: Annotated[Path | None, typer.Option(help="A folder for pair-PRESET.json, .md and .png.")] = None,
) -> None:
    """Measure each stage of a pair, memory and cold start, beside the straightforward version and the arithmetic limit.

    Example: mambamatcher benchmark pair --sides 420 --against benchmarks/straightforward.py --json
    """
    from mambamatcher.benchmark import pair_report
    from mambamatcher.benchmark.pair import run

    found = run(preset, _numbers(sides, "--sides"), repeats, against, None if as_json else typer.echo)
    text = json.dumps(found.as_dict(), indent=2)
    typer.echo(text if as_json else pair_report.as_markdown(found))
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / f"pair-{preset}.json").write_text(text + "\n")
        (save / f"pair-{preset}.md").write_text(pair_report.as_markdown(found))
        pair_report.plot(found, save / f"pair-{preset}.png")


@app.command()
def gallery(
    preset: Annotated[str, typer.Option(help="Which model; its backbone gets random weights.")] = "lite",
    targets: Annotated[int, typer.Option(min=1, help="How many targets one source is matched with.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    save: Annotated[Path | None, typer.Option(help="A folder for gallery-PRESET.json.")] = None,
) -> None:
    """Match one source with many targets, with and without keeping features.

    Example: mambamatcher benchmark gallery --preset lite --targets 50 --json
    """
    from mambamatcher.benchmark.gallery import benchmark_gallery
    from mambamatcher.benchmark.pair import random_model

    found = benchmark_gallery(random_model(preset), preset, targets)
    text = json.dumps(found.as_dict(), indent=2)
    typer.echo(text if as_json else found.as_text())
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / f"gallery-{preset}.json").write_text(text + "\n")
