"""The options of verbs that can run on a cluster."""

from enum import StrEnum
from typing import Annotated

import typer


class EngineName(StrEnum):
    """Where work is done: in this process, or by the workers of a Ray cluster."""

    local = "local"
    ray = "ray"


Engine = Annotated[EngineName, typer.Option(help="Where the work is done.")]
Address = Annotated[
    str | None, typer.Option(help="The Ray cluster, as Ray takes it (auto, HOST:PORT); else this machine.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Ray workers, each of one core and one thread; all cores if not given.")
]
