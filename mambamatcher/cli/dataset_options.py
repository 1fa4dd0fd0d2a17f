"""The options that choose annotated images: a benchmark, or a file of one's own."""

from pathlib import Path
from typing import Annotated

import typer

Dataset = Annotated[
    str, typer.Option(help="Name of a benchmark, such as spair or voc; or a file of annotated images of your own.")
]
Root = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the benchmarks. Default: MAMBAMATCHER_DATA. For a file of your own, the folder of its "
        "images. Default: that of the file."
    ),
]
SplitSeed = Annotated[
    int, typer.Option(min=0, help="For a file of your own: which fifth of its images is held out, as split val.")
]
