"""A job over many inputs, and the one way to run it: on any engine, to be stopped and resumed at any moment."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mambamatcher.errors import InputError
from mambamatcher.jobs.engines import Engine, Input, Work
from mambamatcher.jobs.journal import Journal, Result
from mambamatcher.jobs.progress import track

LARGEST_SHARD = 1000  # inputs, which is what a kill can cost each Ray worker
FEWEST_SHARDS = 128  # where there are inputs enough: workers then end at nearly the same time

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, kw_only=True)
class Job(Generic[Outcome]):
    """What is done to many inputs.

    Args:
        label: What the inputs are, for the progress.
        inputs: Everything there is to do, in order; no two have the same name.
        header: What the results depend on, in the words of the message if another run differs.
        journal: The file that results are added to as they come.
        key: The entry of a result that names its input.
        work: Yields one result for each input of a shard, in order. It is sent to the workers.
        finish: Puts all results, in the order of the inputs, together.
        products: Files that `finish` writes. Where they are without a journal, they are the user's own.
        check: Returns which results of an earlier run still count, and refuses damaged ones.
        largest_shard: How many inputs a worker is given at most.
    """

    label: str
    inputs: Sequence[Input]
    header: Mapping[str, Any]
    journal: Path
    key: str
    work: Work
    finish: Callable[[list[Result]], Outcome]
    products: Sequence[Path] = ()
    check: Callable[[Sequence[Result]], Iterable[Result]] = iter
    largest_shard: int = LARGEST_SHARD


def run(job: Job[Outcome], engine: Engine, overwrite: bool = False) -> Outcome:
    """Do what is not done yet, and put all results together.

    Args:
        job: What to do.
        engine: Where to do it. The results do not depend on it.
        overwrite: Begin again instead of resuming.

    Returns:
        What the job's `finish` makes of the results.

    Raises:
        InputError: The journal is of another run, or files of the user's would be overwritten.
    """
    names = [each.name for each in job.inputs]
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise InputError(f"two {job.label} have the same name, {name}; their results could not be told apart")
    with Journal(job.journal, job.header, job.key, overwrite, job.products) as journal:
        done = {result[job.key] for result in job.check(list(journal.results.values()))}
        journal.drop(journal.results.keys() - done)
        left = [each for each in job.inputs if each.name not in done]
        if left:
            with closing(engine.run(job.work, cut(left, job.largest_shard))) as results:
                for result in track(results, len(left), job.label):
                    journal.add(result)
        journal.sort(names)
        return job.finish([journal.results[name] for name in names])


def cut(inputs: Sequence[Any], largest: int) -> list[Sequence[Any]]:
    """Cut inputs into shards; how depends on their number alone, not on the engine or its workers."""
    size = min(largest, -(-len(inputs) // FEWEST_SHARDS))
    return [inputs[start : start + size] for start in range(0, len(inputs), size)]
