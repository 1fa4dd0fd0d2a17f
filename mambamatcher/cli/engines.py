"""The options that say where work is done."""

from enum import StrEnum
from typing import Annotated

import typer


class EngineName(StrEnum):
    """Where work is done: in this process, or by the workers of a Ray cluster."""

    local = "local"
    ray = "ray"


Device = Annotated[
    str | None, typer.Option(help="Where the model computes, as PyTorch names it (cuda, cuda:1, mps); else the CPU.")
]
Engine = Annotated[EngineName, typer.Option(help="Where the work is done.")]
Address = Annotated[
    str | None, typer.Option(help="The Ray cluster, as Ray takes it (auto, HOST:PORT); else this machine.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Ray workers, each of one core and one thread; all cores if not given.")
]


def local_device(engine: EngineName, device: str | None) -> str | None:
    """Return where the model of this process computes: on a cluster it is the workers' that goes to their devices."""
    return device if engine is EngineName.local else None
