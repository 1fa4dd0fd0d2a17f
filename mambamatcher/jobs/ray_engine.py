"""The workers of a Ray cluster: a pool of actors, each with one core, one thread and its own copy of the work.

Each actor is sent two shards at a time, so that it never waits for the next one. An actor that dies is replaced and
its shards are done again. Shards and results are small messages; images are read by the worker itself.
"""

import logging
import os
import sys
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mambamatcher.errors import BackendError, InputError, MambaMatcherError
from mambamatcher.extras import require
from mambamatcher.jobs.engines import Input, Work
from mambamatcher.jobs.journal import Result
from mambamatcher.jobs.memory import keep_freed_memory
from mambamatcher.pause_gc import collection_paused

Shard = Sequence[Input]
Reply = tuple[list[Result], str | None]  # and what went wrong after these results

IN_FLIGHT = 2  # shards at an actor: one it works on and one that waits there
DEATHS = 3  # of actors at the same shard, after which the run ends
PATIENCE = 86_400.0  # seconds without any reply, after which the run ends
# one arena for all threads: glibc returns memory at once that was freed in a thread's own arena
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster: a new one on this machine, or the one at `address`.

    Without `workers` there is one for each core, or with a `device` one for each GPU; more than that share the GPUs.
    """

    address: str | None = None
    workers: int | None = None
    device: str | None = None

    def run(self, work: Work, shards: Sequence[Shard]) -> Generator[Result, None, None]:
        """Do every shard once.

        Raises:
            BackendError: The cluster cannot be used, or its workers do not start.
            InputError: A worker met bad input, or a shard has killed its worker too often.
        """
        ray = require_ray()
        with self._connected(ray) as environment:
            workers, gpus = self._size(ray.cluster_resources(), len(shards))
            actor = ray.remote(_Worker).options(num_cpus=1, num_gpus=gpus, runtime_env=environment)
            pool = _Pool(ray, actor, [ray.put(work)], deque(enumerate(shards)))
            try:
                yield from pool.run(workers)
            except ray.exceptions.RayError as error:
                raise BackendError(f"Ray gave up: {_cause(error)}") from error
            finally:
                pool.close()

    def _size(self, resources: Mapping[str, float], shards: int) -> tuple[int, float]:
        """Return the number of workers and the share of a GPU that each has."""
        if self.device is None:
            return min(self.workers or int(resources.get("CPU", 1)), shards), 0.0
        gpus = int(resources.get("GPU", 0))
        if not gpus:
            raise BackendError("the Ray cluster has no GPU; without --device its workers compute on their cores")
        workers = min(self.workers or gpus, shards)
        sharing = -(-workers // gpus)  # the same number on each GPU: a worker cannot use two remainders
        return workers, int(1e4 / sharing) / 1e4  # Ray counts in ten-thousandths

    @contextmanager
    def _connected(self, ray: Any) -> Iterator[dict[str, Any] | None]:
        """Use the cluster this process is connected to, or connect for as long as the run takes.

        Yields the runtime environment of the workers. A cluster started here has it from this process.
        """
        joined = {"env_vars": ENVIRONMENT}
        if ray.is_initialized():
            yield joined
            return
        here = self.address in (None, "local")
        own = {"num_cpus": self.workers, "include_dashboard": False} if here else {}
        try:
            with _quiet():
                ray.init(address=self.address or "local", logging_level=logging.ERROR, log_to_driver=False, **own)
        except Exception as error:  # Ray raises just that where its processes do not start in time
            wanted = "start Ray on this machine" if here else f"use the Ray cluster at {self.address}"
            said = (str(error).strip() or repr(error)).splitlines()[0]
            # Ray retries for long and then does not say that the cluster asked for a token
            hint = "" if here or "RAY_AUTH_MODE" in os.environ else "; if it has a token, set RAY_AUTH_MODE=token"
            raise BackendError(f"cannot {wanted}: {said}{hint}") from error
        try:
            yield None if here else joined
        finally:
            ray.shutdown()


@dataclass
class _Pool:
    """Actors with the calls sent to each, oldest first; the first call has no shard and loads the work."""

    ray: Any
    actor: Any
    work: list[Any]  # its reference, in a list: Ray would else resolve it outside of the actor's method
    waiting: deque[tuple[int, Shard]]
    calls: dict[Any, deque[tuple[Any, tuple[int, Shard] | None]]] = field(default_factory=dict)
    deaths: Counter[int | None] = field(default_factory=Counter)  # by shard; None: before an actor was ready

    def run(self, workers: int) -> Iterator[Result]:
        left = len(self.waiting)
        for _ in range(workers):
            self._start()
        while left:
            actor = self._next_to_reply()
            call, shard = self.calls[actor].popleft()
            try:
                results, problem = self.ray.get(call)
            except self._died() as error:
                self._replace(actor, shard, error)
            else:
                yield from results
                if problem is not None:
                    raise InputError(problem)
                left -= shard is not None
                self.deaths[None] = 0
            self._send()

    def close(self) -> None:
        for actor in self.calls:
            self.ray.kill(actor)

    def _start(self) -> None:
        actor = self.actor.remote()
        self.calls[actor] = deque([(actor.load.remote(self.work), None)])

    def _send(self) -> None:
        """Keep every ready actor busy; towards the end none takes a second shard that another could begin."""
        for actor, calls in self.calls.items():
            ready = not calls or calls[0][1] is not None
            room = IN_FLIGHT if len(self.waiting) > len(self.calls) else 1
            while ready and self.waiting and len(calls) < room:
                shard = self.waiting.popleft()
                calls.append((actor.do.remote(shard[1]), shard))

    def _next_to_reply(self) -> Any:
        """Wait for an actor whose oldest call is over: calls of one actor end in the order they were sent."""
        oldest = {calls[0][0]: actor for actor, calls in self.calls.items() if calls}
        ended, _ = self.ray.wait(list(oldest), timeout=PATIENCE)
        if not ended:
            raise BackendError(f"Ray gave up: no worker has replied for {PATIENCE / 3600:.0f} hours")
        return oldest[ended[0]]

    def _replace(self, actor: Any, shard: tuple[int, Shard] | None, error: BaseException) -> None:
        """Start another actor, and put the shards of the dead one back; it was working on the oldest."""
        number = None if shard is None else shard[0]
        self.deaths[number] += 1
        if self.deaths[number] >= DEATHS:
            if shard is None:
                raise BackendError(f"Ray gave up: {_cause(error)}") from error
            raise InputError(f"{_describe(shard[1])} killed its worker {DEATHS} times, often for lack of memory")
        lost = [shard, *(each for _, each in self.calls.pop(actor))]
        self.waiting.extendleft(each for each in reversed(lost) if each is not None)
        self.ray.kill(actor)  # it may only have been out of reach
        self._start()

    def _died(self) -> tuple[type[Exception], ...]:
        known = self.ray.exceptions
        return known.RayActorError, known.WorkerCrashedError, known.OutOfMemoryError, known.NodeDiedError


class _Worker:
    """An actor: the work, kept with its model between shards."""

    def load(self, work: list[Any]) -> Reply:
        with collection_paused():  # imports the model and what it needs
            self.work: Work = require_ray().get(work[0])
        if "torch" in sys.modules:  # other runtimes bring their number of threads with them
            sys.modules["torch"].set_num_threads(1)
        keep_freed_memory()
        return [], None

    def do(self, shard: Shard) -> Reply:
        results: list[Result] = []
        try:
            for result in self.work(shard):
                results.append(result)
        except MambaMatcherError as error:
            return results, str(error)
        except Exception as error:  # Ray's message would hide which input it was
            said = f"{type(error).__name__}: {' '.join(str(error).split())}"
            return results, f"{_describe(shard[len(results) :][:1] or shard)}: {said}"
        return results, None


def require_ray() -> Any:
    """Return Ray, with settings for the processes it starts here, or say how to get it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
    os.environ.setdefault("RAY_worker_niceness", "0")  # its workers would give way to every other process
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it would print warnings about its own actors
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    require("ray")
    import ray

    return ray


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop what is written to standard error past Python: Ray lists there each setting it was given."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _describe(shard: Shard) -> str:
    return shard[0].name if len(shard) == 1 else f"one of the inputs {shard[0].name} to {shard[-1].name}"


def _cause(error: BaseException) -> str:
    """Return in one line what began a chain of errors, some of which have no message in Ray."""
    said = str(error)
    cause = error.__cause__
    while cause is not None:
        said = str(cause).strip() or said
        cause = cause.__cause__
    return (said.strip() or repr(error)).splitlines()[0]
