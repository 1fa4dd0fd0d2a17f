"""`mambamatcher benchmark`: time and memory on this machine, compared with alternatives."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.errors import ConfigError
from mambamatcher.io.atomic import make_folder, write_text_atomically

app = typer.Typer(name="benchmark", help="Measure time and memory on this machine.", no_args_is_help=True)


@app.callback()
def benchmark() -> None:
    """Measure time and memory on this machine."""


def _numbers(text: str, option: str) -> tuple[int, ...]:
    """Parse whole numbers separated by commas."""
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
    save: Annotated[Path | None, typer.Option(help="Folder for scan.json and scan.md.")] = None,
) -> None:
    """Compare the selective scan and the fused refinement with alternatives, on the same tensors.

    Example: mambamatcher benchmark scan --grids 17,30 --json
    """
    from mambamatcher.benchmark.formatting import scan_line, scan_markdown
    from mambamatcher.benchmark.measurement import circumstances
    from mambamatcher.benchmark.scan import ScanBenchmark, benchmark_scan

    rows = []
    for row in benchmark_scan(_numbers(grids, "--grids"), repeats):
        rows.append(row)
        if not as_json:
            typer.echo(scan_line(row))
    found = ScanBenchmark(circumstances(), rows)
    text = json.dumps(found.as_dict(), indent=2)
    if as_json:
        typer.echo(text)
    if save is not None:
        _save(save, {"scan.json": text + "\n", "scan.md": scan_markdown(found)})


@app.command()
def growth(
    small: Annotated[int, typer.Option(min=2, help="Side of the small feature grid.")] = 30,
    large: Annotated[int, typer.Option(min=2, help="Side of the large feature grid.")] = 60,
    turns: Annotated[int, typer.Option(min=1, help="Measurements of each; the median counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Measure whether the time of the scan and the fused refinement is proportional to the number of tokens.

    Example: mambamatcher benchmark growth --small 20 --large 40
    """
    from mambamatcher.benchmark.growth import as_dict, benchmark_growth

    if large <= small:
        raise ConfigError(f"--large must be larger than --small {small}, got {large}")
    rows = []
    for row in benchmark_growth(small, large, turns):
        rows.append(row)
        if not as_json:
            typer.echo(row.as_line())
    if as_json:
        typer.echo(json.dumps(as_dict(rows), indent=2))


@app.command()
def pair(
    preset: Annotated[str, typer.Option(help="Model to measure, with random weights.")] = "paper",
    sides: Annotated[str, typer.Option(help="Sides of the images, separated by commas.")] = "238,420,560,700,840",
    repeats: Annotated[int, typer.Option(min=1, help="Runs per stage; the fastest counts.")] = 3,
    against: Annotated[
        Path | None, typer.Option(help="File with the straightforward version, benchmarks/straightforward.py.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    save: Annotated[Path | None, typer.Option(help="Folder for pair-PRESET.json, .md and .png.")] = None,
) -> None:
    """Measure each stage of a pair, memory and cold start.

    Each stage is compared with the limit set by its arithmetic and, with --against, a straightforward version.

    Example: mambamatcher benchmark pair --sides 420 --against benchmarks/straightforward.py --json
    """
    from mambamatcher.benchmark.formatting import pair_markdown, plot_pair
    from mambamatcher.benchmark.pair_stages import benchmark_preset

    found = benchmark_preset(preset, _numbers(sides, "--sides"), repeats, against, None if as_json else typer.echo)
    text = json.dumps(found.as_dict(), indent=2)
    typer.echo(text if as_json else pair_markdown(found))
    if save is not None:
        _save(save, {f"pair-{preset}.json": text + "\n", f"pair-{preset}.md": pair_markdown(found)})
        plot_pair(found, save / f"pair-{preset}.png")


@app.command()
def gallery(
    preset: Annotated[str, typer.Option(help="Model to measure, with random weights.")] = "efficientnet",
    targets: Annotated[int, typer.Option(min=1, help="Number of targets.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    save: Annotated[Path | None, typer.Option(help="Folder for gallery-PRESET.json.")] = None,
) -> None:
    """Measure matching one source with many targets, with and without the feature cache.

    Example: mambamatcher benchmark gallery --preset efficientnet --targets 50 --json
    """
    from mambamatcher.benchmark.match_many import benchmark_gallery
    from mambamatcher.benchmark.pair_stages import random_model

    found = benchmark_gallery(random_model(preset), preset, targets)
    text = json.dumps(found.as_dict(), indent=2)
    typer.echo(text if as_json else found.as_text())
    if save is not None:
        _save(save, {f"gallery-{preset}.json": text + "\n"})


@app.command()
def runtime(
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each; the best counts.")] = 3,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each runtime; else its own default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    out: Annotated[Path | None, typer.Option(help="JSON file to write; an existing one is replaced.")] = None,
) -> None:
    """Compare the runtimes of both shipped models: install size, start, time, throughput and memory.

    Example: mambamatcher benchmark runtime --json --out runtime.json
    """
    from mambamatcher.benchmark.runtimes import benchmark_runtimes

    found = benchmark_runtimes(rounds, threads, None if as_json else typer.echo)
    text = json.dumps(found.as_dict(), indent=2)
    typer.echo(text if as_json else found.as_text())
    if out is not None:
        _save(out.parent, {out.name: text + "\n"})


def _save(folder: Path, files: dict[str, str]) -> None:
    make_folder(folder)
    for name, text in files.items():
        write_text_atomically(folder / name, text, overwrite=True)
