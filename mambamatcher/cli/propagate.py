"""`mambamatcher propagate`: mark points on a few pictures, get them on a whole folder."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def propagate(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="The annotated pictures, one or several.")],
    targets: Annotated[Path, typer.Argument(metavar="TARGETS", help="The folder of pictures to find the points in.")],
    points_file: Annotated[Path, typer.Option(help="The sources' points as JSON, CSV or COCO keypoints.")],
    out: Annotated[Path, typer.Option(help="The folder for the results.")],
    model: Annotated[str | None, typer.Option(help="A preset's name or a saved model's folder.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Begin again instead of going on with what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Carry the points of one or several SOURCEs to every picture of a folder; the same command goes on after a stop.

    OUT gets points.jsonl, points.csv, points.coco.json and review.html, a page with the most doubtful targets first.

    Example: mambamatcher propagate cat1.jpg cat2.jpg photos/ --points-file marked.coco.json --out annotated
    """
    from mambamatcher.apps.propagate import REVIEW, list_targets, read_references
    from mambamatcher.apps.propagate import propagate as run
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.images import require_file
    from mambamatcher.points import read_points

    for source in sources:  # before a model is loaded
        require_file(source)
        read_points(points_file, source)
    list_targets(targets)
    matcher = load_matcher(model)
    summary = run(matcher, read_references(matcher, sources, points_file), targets, out, overwrite)
    if as_json:
        typer.echo(json.dumps(asdict(summary)))
        return
    typer.echo(
        f"{summary.targets} targets, {summary.unreadable} of them unreadable; "
        f"{summary.unmatched} points without a match"
    )
    typer.echo(f"wrote {out}; look through {out / REVIEW}")
