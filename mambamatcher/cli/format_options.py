"""The options that choose formats of points, and what these need besides points."""

from pathlib import Path
from typing import Annotated

import typer

NAMES = "csv, json, coco, label-studio, cvat, x-anylabeling, deeplabcut, deeplabcut-h5 or sleap"

Formats = Annotated[
    list[str] | None, typer.Option("--format", help=f"A further format to write, may be repeated: {NAMES}.")
]
Category = Annotated[
    str | None, typer.Option(help="What the objects are; of a file with several categories, which to take.")
]
SkeletonFile = Annotated[
    Path | None,
    typer.Option(
        "--skeleton",
        metavar="FILE",
        help='Which points a line joins: JSON like [["nose", "tail"]], or points of a tool with a skeleton.',
        show_default="that of the points",
    ),
]
ImagePrefix = Annotated[
    str, typer.Option(help="Written before the name of every image, such as /data/local-files/?d=photos/.")
]
Scorer = Annotated[str, typer.Option(help="Who placed the points, for DeepLabCut and others.")]
