"""`mambamatcher data`: check the benchmarks on disk, and convert points between the formats of tools."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mambamatcher.cli.format_options import NAMES, Category, ImagePrefix, Scorer, SkeletonFile

if TYPE_CHECKING:
    from mambamatcher.datasets.verify import SplitState, Verification

app = typer.Typer(help="Check benchmarks, convert points.", no_args_is_help=True)

SHOWN = 10


@app.callback()
def data() -> None:
    """Check the benchmarks on disk, and convert points between the formats of tools."""


@app.command("verify")
def verify_command(
    dataset: Annotated[str, typer.Option(help="Name of the benchmark, such as spair or pf-pascal.")],
    root: Annotated[Path | None, typer.Option(help="Folder with the benchmarks. Default: MAMBAMATCHER_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Report what is present, missing or bad in a benchmark, and which images its splits share.

    Example: mambamatcher data verify --dataset spair --root ~/data
    """
    from mambamatcher.datasets.verify import verify

    found = verify(dataset, root)
    if as_json:
        typer.echo(json.dumps({**asdict(found), "complete": found.complete}))
    else:
        print_state(found)
    if not any(split.pairs for split in found.splits):
        raise typer.Exit(1)


@app.command("convert")
def convert_command(
    source: Annotated[Path, typer.Argument(metavar="POINTS", help="The points; their format is recognised.")],
    to: Annotated[
        str, typer.Option(metavar="FORMAT", help=f"The format to write: {NAMES}; label-studio-config or cvat-labels.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write; a folder for x-anylabeling.")],
    root: Annotated[
        Path | None,
        typer.Option(metavar="IMAGES", help="Folder with the images, to look them up and read their sizes."),
    ] = None,
    category: Category = None,
    skeleton: SkeletonFile = None,
    image_prefix: ImagePrefix = "",
    scorer: Scorer = "mambamatcher",
    from_name: Annotated[str, typer.Option(help="Name of the tag KeyPointLabels in Label Studio.")] = "keypoints",
    to_name: Annotated[str, typer.Option(help="Name of the tag Image in Label Studio.")] = "image",
    overwrite: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
) -> None:
    """Convert points from the files of one tool to those of another.

    Example: mambamatcher data convert points.coco.json --to cvat --out annotations.xml
    """
    from mambamatcher.io.points import FORMATS, Settings
    from mambamatcher.tools.convert import Choice, convert

    settings = Settings(image_prefix=image_prefix, scorer=scorer, from_name=from_name, to_name=to_name)
    found = convert(source, out, to, Choice(root=root, category=category, skeleton=skeleton), settings, overwrite)
    objects = sum(len(each) for each in found.images.values())
    typer.echo(f"wrote {out} for {FORMATS[to].title}: {objects} objects in {len(found.images)} images")


def print_state(found: "Verification") -> None:
    """Print a row per split, then faults, shared images and where to get the rest."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    table = Table(title=f"{found.dataset} under {found.root}")
    for heading in ("split", "usable pairs", "published", "images", "state"):
        table.add_column(heading)
    for split in found.splits:
        published = "" if split.expected is None else f"{split.expected:,}"
        table.add_row(split.split, f"{split.pairs:,}", published, f"{split.images:,}", _state(split))
    console.print(table)
    for split in found.splits:
        if split.absent is not None:
            console.print(f"{split.split} is absent: {split.absent}", soft_wrap=True, markup=False)
        for reason in split.faults[:SHOWN]:
            console.print(f"bad in {split.split}: {reason}", soft_wrap=True, markup=False)
        if len(split.faults) > SHOWN:
            console.print(f"and {len(split.faults) - SHOWN} more in {split.split}; --json lists all")
    for splits, count in found.shared_images.items():
        console.print(f"{splits} share {count} images", soft_wrap=True)
    if not found.complete:
        console.print(f"To get the rest: {found.get}", soft_wrap=True, markup=False)


def _state(split: "SplitState") -> str:
    if split.absent is not None:
        return "absent"
    if split.faults:
        return f"{len(split.faults)} bad"
    if not split.complete:
        return "incomplete"
    return "complete" if split.expected is not None else "read"
