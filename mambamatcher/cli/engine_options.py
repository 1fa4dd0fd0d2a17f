"""The options that say where work is done."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from mambamatcher.matching.matcher import Matcher


class EngineName(StrEnum):
    """Where work is done: in this process, or by the workers of a Ray cluster."""

    local = "local"
    ray = "ray"


# what a saved model computes with: ONNX Runtime, in float32 or with products of bytes, or PyTorch, an extra
RuntimeName = Literal["onnx", "int8", "torch"]

Device = Annotated[
    str | None, typer.Option(help="Where the model computes, as PyTorch names it (cuda, cuda:1, mps); else the CPU.")
]
Runtime = Annotated[
    RuntimeName | None,
    typer.Option(help="What the model computes with; else onnx where the model has a graph and no --device is given."),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads that the model computes with; else one for each core.")
]
Engine = Annotated[EngineName, typer.Option(help="Where the work is done.")]
Address = Annotated[
    str | None, typer.Option(help="The Ray cluster, as Ray takes it (auto, HOST:PORT); else RAY_ADDRESS, else here.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Ray workers, each of one core and one thread; else one for each core, or GPU with --device."
    ),
]


def load_for_run(
    model: str | None,
    engine: EngineName,
    device: str | None,
    runtime: RuntimeName | None = None,
    threads: int | None = None,
) -> "Matcher":
    """Load the model of a long run; on a cluster it is the workers' copies that go to a device."""
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.jobs.memory import keep_freed_memory

    keep_freed_memory()
    return load_matcher(model, device if engine is EngineName.local else None, runtime, threads)
