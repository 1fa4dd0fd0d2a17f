"""`mambamatcher propagate`: mark points on a few pictures, get them on a whole folder."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.engines import Address, Device, Engine, EngineName, Workers, load_for_run


def propagate(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="The annotated pictures, one or several.")],
    targets: Annotated[
        Path,
        typer.Argument(metavar="TARGETS", help="The pictures to find the points in: a folder, a manifest or Parquet."),
    ],
    points_file: Annotated[Path, typer.Option(help="The sources' points as JSON, CSV or COCO keypoints.")],
    out: Annotated[Path, typer.Option(help="The folder for the results.")],
    model: Annotated[str | None, typer.Option(help="A preset's name or a saved model's folder.")] = None,
    device: Device = None,
    engine: Engine = EngineName.local,
    address: Address = None,
    workers: Workers = None,
    overwrite: Annotated[bool, typer.Option(help="Begin again instead of going on with what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Carry the points of one or several SOURCEs to every picture of a folder; the same command goes on after a stop.

    TARGETS may also be a text file with one path a line, or Parquet with a column path and, if need be, bytes.

    OUT gets points.jsonl, points.csv, points.coco.json and review.html, a page with the most doubtful targets first.

    Example: mambamatcher propagate cat1.jpg cat2.jpg photos/ --points-file marked.coco.json --out annotated
    """
    from mambamatcher.io.images import require_file
    from mambamatcher.io.points import read_points
    from mambamatcher.jobs.engines import make_engine
    from mambamatcher.jobs.source import read_source
    from mambamatcher.tools.propagate import REVIEW, read_references
    from mambamatcher.tools.propagate import propagate as propagate_folder
    from mambamatcher.tools.sharded import GATHERED
    from mambamatcher.tools.sharded import propagate as propagate_parts

    for path in sources:  # before a model is loaded
        require_file(path)
        read_points(points_file, path)
    chosen, source = make_engine(engine, address, workers, device), read_source(targets)
    matcher = load_for_run(model, engine, device)
    references = read_references(matcher, sources, points_file)
    if engine is EngineName.local and not source.listed:
        summary = propagate_folder(matcher, references, targets, out, overwrite)
    else:
        summary = propagate_parts(chosen, matcher, references, source, out, overwrite)
    if as_json:
        typer.echo(json.dumps(asdict(summary)))
        return
    typer.echo(
        f"{summary.targets} targets, {summary.unreadable} of them unreadable; "
        f"{summary.unmatched} points without a match"
    )
    look = f"look through {out / REVIEW}" if summary.targets <= GATHERED else f"the results are {out / 'parts'}"
    typer.echo(f"wrote {out}; {look}")
