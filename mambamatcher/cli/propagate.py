"""`mambamatcher propagate`: mark points on a few images, get them on a whole folder."""

import json
from dataclasses import asdict
from os.path import exists  # unlike Path.exists, it accepts names that no file can have
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mambamatcher.cli.engine_options import Address, Device, Engine, EngineName, Runtime, Threads, Workers, load_for_run
from mambamatcher.cli.format_options import Category, Formats, ImagePrefix, Scorer, SkeletonFile
from mambamatcher.cli.model_options import Model, Threshold, set_threshold
from mambamatcher.errors import InputError

if TYPE_CHECKING:
    from mambamatcher.io.frame_selection import FrameSelection


def propagate(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="The annotated images, one or several.")],
    targets: Annotated[
        Path,
        typer.Argument(
            metavar="TARGETS", help="The images to find the points in: a folder, a manifest, Parquet or a video."
        ),
    ],
    points_file: Annotated[Path, typer.Option(help="The sources' points, in any of the formats that can be read.")],
    out: Annotated[Path, typer.Option(help="The folder for the results.")],
    corrections: Annotated[
        Path | None,
        typer.Option(help="Corrections to take in: corrections.json, or points of OUT that you changed."),
    ] = None,
    format: Formats = None,
    category: Category = None,
    skeleton: SkeletonFile = None,
    image_prefix: ImagePrefix = "",
    scorer: Scorer = "mambamatcher",
    every: Annotated[int | None, typer.Option(min=1, help="Of a video, use every N-th frame only.")] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="POSITION", help="Of a video, begin there: seconds, or 75f, a frame."),
    ] = None,
    stop: Annotated[str | None, typer.Option("--to", metavar="POSITION", help="Of a video, end before there.")] = None,
    smooth: Annotated[bool, typer.Option(help="Of a video, also write smoothed points, and draw these.")] = False,
    threshold: Threshold = None,
    model: Model = None,
    device: Device = None,
    runtime: Runtime = None,
    threads: Threads = None,
    engine: Engine = EngineName.local,
    address: Address = None,
    workers: Workers = None,
    overwrite: Annotated[bool, typer.Option(help="Begin again instead of resuming.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Transfer the points of one or several SOURCEs to every image of a folder; the same command resumes after a stop.

    Corrected images, from OUT/corrections.json and --corrections, stay as they are and are references for the others.

    TARGETS may also be a text file with one path per line, or Parquet with a column path and, if need be, bytes.

    OUT gets points.jsonl, points.csv, points.coco.json and review.html, a page with the most doubtful targets first.
    Each --format adds a file for another tool. Of a video it also gets points.dlc.csv, as DeepLabCut writes it,
    overlay.mp4 and paths.png.

    Example: mambamatcher propagate cat1.jpg cat2.jpg photos/ --points-file marked.coco.json --out annotated
    """
    from mambamatcher.io.images import require_file
    from mambamatcher.io.points import Settings, read_points
    from mambamatcher.io.videos import is_video
    from mambamatcher.jobs.engines import make_engine
    from mambamatcher.jobs.shards import FOLDER
    from mambamatcher.jobs.source import read_source, read_video
    from mambamatcher.tools.convert import read_skeleton
    from mambamatcher.tools.outputs import REVIEW, Outputs
    from mambamatcher.tools.propagate import GATHERED, check_engine, read_references
    from mambamatcher.tools.propagate import propagate as run

    for path in sources:  # before a model is loaded
        require_file(path)
        read_points(points_file, path, category)
    outputs = Outputs(
        formats=tuple(format or ()),
        category=category,
        skeleton=read_skeleton(skeleton, points_file, category),
        settings=Settings(image_prefix=image_prefix, scorer=scorer),
        smooth=smooth,
    )
    chosen = make_engine(engine, address, workers, device)
    if is_video(targets):
        check_engine(targets, chosen)
        source = read_video(targets, _select_frames(every, start, stop))
    elif every or start or stop or smooth:
        raise InputError(f"--every, --from, --to and --smooth are for a video, which {targets} is not")
    else:
        source = read_source(targets)
    if corrections is not None and not exists(corrections):  # a folder, where a tool has a file per image
        raise InputError(f"there are no corrections at {corrections}")
    matcher = set_threshold(load_for_run(model, engine, device, runtime, threads), threshold)
    references = read_references(matcher, sources, points_file, category)
    summary = run(matcher, references, source, out, chosen, overwrite, corrections, outputs)
    if summary.damage is not None:
        typer.echo(f"mambamatcher: {summary.damage}", err=True)
    if as_json:
        typer.echo(json.dumps(asdict(summary)))
        return
    typer.echo(
        f"{summary.targets} targets, {summary.unreadable} of them unreadable; "
        f"{summary.unmatched} points below the threshold"
    )
    if summary.kept:
        most = ", ".join(list(summary.moved)[:3])
        typer.echo(
            f"{summary.kept} kept as corrected; since the last round {sum(summary.moved.values())} points moved in "
            f"{len(summary.moved)} targets{f', most in {most}' if most else ''}"
        )
    if summary.next is not None:
        typer.echo(f"to gain most, correct {summary.next} next")
    look = f"look through {out / REVIEW}" if summary.targets <= GATHERED else f"the results are in {out / FOLDER}"
    typer.echo(f"wrote {out}; {look}")


def _select_frames(every: int | None, start: str | None, stop: str | None) -> "FrameSelection":
    from mambamatcher.io.frame_selection import FrameSelection, Position

    first = Position(0) if start is None else Position.parse(start)
    return FrameSelection(every=every or 1, start=first, stop=None if stop is None else Position.parse(stop))
