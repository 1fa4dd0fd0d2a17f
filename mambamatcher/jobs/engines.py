"""Who does the work: this process, or the workers of a Ray cluster."""

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, runtime_checkable

from mambamatcher.errors import InputError
from mambamatcher.jobs.journal import Result


@runtime_checkable
class Input(Protocol):
    """Anything with a name that its result is found by."""

    @property
    def name(self) -> str:
        """The name, which no other input of the job has."""
        ...


Work = Callable[[Sequence[Any]], Iterable[Result]]  # of the inputs of a shard; picklable


@runtime_checkable
class Engine(Protocol):
    """Does shards, in any order, and yields results as they come."""

    @property
    def device(self) -> str | None:
        """Where copies of the model in other processes compute; None leaves them where they are."""
        ...

    def run(self, work: Work, shards: Sequence[Sequence[Input]]) -> Generator[Result, None, None]:
        """Do every shard once."""
        ...


@dataclass(frozen=True)
class LocalEngine:
    """This process, one input after the other, with the model where it is."""

    device: str | None = None

    def run(self, work: Work, shards: Sequence[Sequence[Input]]) -> Generator[Result, None, None]:
        """Do all shards as one, so that reading ahead does not stop at the end of each."""
        yield from work(list(chain.from_iterable(shards)))


LOCAL = LocalEngine()


def make_engine(name: str, address: str | None, workers: int | None, device: str | None = None) -> Engine:
    """Return the engine `local` or `ray`.

    Args:
        name: Which of the two; Ray must be installed.
        address: The Ray cluster. Without it, the one at RAY_ADDRESS, or a new one on this machine.
        workers: How many Ray workers.
        device: Where the model computes.

    Raises:
        InputError: The options do not fit each other.
        MissingExtraError: Ray is not installed.
    """
    if name != "ray":
        if address is not None or workers is not None:
            raise InputError("--address and --workers are for --engine ray; the local engine uses every core as it is")
        return LOCAL
    from mambamatcher.jobs.ray_engine import RayEngine, require_ray

    address = address or os.environ.get("RAY_ADDRESS")
    if address is not None and address.startswith("ray://"):
        raise InputError(
            f"Ray's client is not supported, so {address} cannot be used; run this on the cluster with --address "
            "auto, or give HOST:PORT"
        )
    if device is not None and ":" in device:
        raise InputError(f"Ray chooses the GPU of each worker; give --device {device.split(':')[0]}, not {device}")
    require_ray()
    return RayEngine(address, workers, None if device == "cpu" else device)
