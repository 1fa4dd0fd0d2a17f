"""Who does the parts: this process, or the workers of a Ray cluster.

On Ray each worker is an actor of one core and one thread that keeps the model, on a GPU or a share of one where a
device is asked for; an actor that dies is started again and its part done again. Parts are small messages: pictures are
read, and results written, by the worker itself.
"""

import logging
import os
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from mambamatcher.errors import BackendError, InputError, MambaMatcherError
from mambamatcher.jobs.progress import track
from mambamatcher.jobs.shards import Part, Work
from mambamatcher.pause_gc import collection_paused

DEATHS = 3  # of workers at the same part, after which it is not tried again
# seconds without any part done, after which Ray gives up; its own half an hour may be less than a part takes
PATIENCE = 86_400
# Ray works in a thread, and glibc gives back what only a thread had: a quarter of the time of two workers
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}


@runtime_checkable
class Engine(Protocol):
    """Does parts, in any order, and yields as each is done."""

    @property
    def device(self) -> str | None:
        """Where the workers' models are to compute; None leaves them where they are."""
        ...

    def run(self, work: Work, parts: Sequence[Part]) -> Iterator[None]:
        """Do every part once."""
        ...


def make_engine(name: str, address: str | None, workers: int | None, device: str | None = None) -> Engine:
    """Choose `local` or `ray`, which must be there; without an address it is at RAY_ADDRESS, or on this machine."""
    if name == "ray":
        address = address or os.environ.get("RAY_ADDRESS")
        if address is not None and address.startswith("ray://"):
            raise InputError(
                f"Ray Data does not run over Ray's client, so not at {address}; run this on the cluster with --address "
                "auto, or give HOST:PORT"
            )
        if device is not None and ":" in device:
            raise InputError(f"Ray chooses the GPU of each worker; give --device {device.split(':')[0]}, not {device}")
        _require_ray()
        return RayEngine(address, workers, None if device == "cpu" else device)
    if address is not None or workers is not None:
        raise InputError("--address and --workers are for --engine ray; the local engine uses every core as it is")
    return LocalEngine()


def run_missing(engine: Engine, work: Work, parts: Sequence[Part], label: str) -> None:
    """Do the parts that are not there yet."""
    left = [part for part in parts if not part.path.exists()]
    if left:
        for _ in track(engine.run(work, left), len(left), f"{label}, parts"):
            pass


@dataclass(frozen=True)
class LocalEngine:
    """This process, one part after the other, with the model where it is."""

    device: str | None = None

    def run(self, work: Work, parts: Sequence[Part]) -> Iterator[None]:
        """Do every part once."""
        for part in parts:
            part.complete(work)
            yield


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster: a new one on this machine, or the one at `address`.

    `workers` are as many as it has cores if not given, and with a `device` as many as it has GPUs; more share them.
    """

    address: str | None = None
    workers: int | None = None
    device: str | None = None

    def run(self, work: Work, parts: Sequence[Part]) -> Iterator[None]:
        """Do every part once."""
        ray = _require_ray()
        logging.getLogger("ray.data").setLevel(logging.ERROR)  # it would tell of its plans
        with self._connected(ray) as environment:
            workers, gpus = self._size(ray.cluster_resources(), len(parts))
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = False
            context.execution_no_progress_timeout_s = PATIENCE
            # the next part waits at the actor, which would else be idle until Ray Data has seen that one is done
            pool = ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=2)
            rows = [{"part": pickle.dumps(part)} for part in parts]
            done = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
                _Worker,
                fn_constructor_args=(ray.put(work), time.time()),
                compute=pool,
                num_cpus=1,
                num_gpus=gpus,
                runtime_env=environment,
            )
            try:
                # nothing is fetched ahead: the threads for it would take time from the workers
                for batch in done.iter_batches(batch_size=None, batch_format="numpy", prefetch_batches=0):
                    for problem in batch["problem"]:
                        if problem:
                            raise InputError(str(problem))
                        yield
            except (ray.exceptions.RayError, ray.data.exceptions.ExecutionTimeoutError) as error:
                raise BackendError(f"Ray gave up: {_cause(error)}") from error

    def _size(self, resources: Mapping[str, float], parts: int) -> tuple[int, float]:
        """Return how many workers there are and how much of a GPU each has."""
        if self.device is None:
            return min(self.workers or int(resources.get("CPU", 1)), parts), 0.0
        gpus = int(resources.get("GPU", 0))
        if not gpus:
            raise BackendError("the Ray cluster has no GPU; without --device its workers compute on their cores")
        workers = min(self.workers or gpus, parts)
        sharing = -(-workers // gpus)  # the same number on each GPU: a worker cannot have the rests of two
        return workers, int(1e4 / sharing) / 1e4  # Ray counts in ten-thousandths

    @contextmanager
    def _connected(self, ray: Any) -> Iterator[dict[str, Any] | None]:
        """Use the cluster this process is connected to, or connect for as long as the run takes.

        Yields what workers are to be started with; those of a cluster made here have it from this process.
        """
        joined = {"env_vars": ENVIRONMENT}
        if ray.is_initialized():
            yield joined
            return
        here = self.address in (None, "local")
        # Ray starts as many processes ahead as it has CPUs, and Ray Data takes the first for itself
        cpus = self.workers and self.workers + 1
        own = {"num_cpus": cpus, "include_dashboard": False} if here else {}
        try:
            with _quiet():
                ray.init(address=self.address or "local", logging_level=logging.ERROR, log_to_driver=False, **own)
        except Exception as error:  # Ray raises just that where its processes do not start in time
            wanted = "start Ray on this machine" if here else f"use the Ray cluster at {self.address}"
            told = (str(error).strip() or repr(error)).splitlines()[0]
            # Ray tries for long and then does not say that the cluster had asked for a token
            hint = "" if here or "RAY_AUTH_MODE" in os.environ else "; if it has a token, set RAY_AUTH_MODE=token"
            raise BackendError(f"cannot {wanted}: {told}{hint}") from error
        try:
            yield None if here else joined
        finally:
            ray.shutdown()


class _Worker:
    """One actor: the work, kept with its model between parts."""

    def __init__(self, work: Any, begun: float) -> None:
        with collection_paused():  # imports torch and the model
            self.work: Work = _require_ray().get(work)
            import torch

            from mambamatcher.ops.native.memory import keep_freed_memory
        torch.set_num_threads(1)
        keep_freed_memory()
        self.begun = begun

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        part: Part = pickle.loads(row["part"])
        if part.attempts(since=self.begun) >= DEATHS:  # Ray would try for ever
            return {"problem": f"{part.path.name} killed its worker {DEATHS} times, often for lack of memory"}
        try:
            part.complete(self.work)
        except MambaMatcherError as error:
            return {"problem": str(error)}
        except Exception as error:  # Ray's own words for it would hide which it is
            return {"problem": f"{part.path.name}: {type(error).__name__}: {' '.join(str(error).split())}"}
        return {"problem": ""}


@contextmanager
def _quiet() -> Iterator[None]:
    """Pass over what is written to the standard error past Python: Ray tells there of each setting it was given."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _cause(error: BaseException) -> str:
    """Say in one line what began a chain of errors, of which Ray leaves some without words."""
    told = str(error)
    cause = error.__cause__
    while cause is not None:
        told = str(cause).strip() or told
        cause = cause.__cause__
    return (told.strip() or repr(error)).splitlines()[0]


def _require_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
    os.environ.setdefault("RAY_worker_niceness", "0")  # its workers would give way to every other process
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it would print warnings about its own actors
    os.environ.setdefault("RAY_preload_python_modules", "ray.data")  # while it waits for its own processes
    for name, value in ENVIRONMENT.items():  # which a cluster made here has for its workers
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise BackendError("the engine 'ray' is not installed: pip install 'mambamatcher[scale]'") from error
    return ray
