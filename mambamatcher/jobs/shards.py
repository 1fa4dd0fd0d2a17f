"""Results that are files: one for each shard of the inputs, under OUT/parts.

A shard's file appears in one step, and then its line in the journal beside it. So it does not matter who writes a file,
or how often it was begun: a run that resumes does the shards that are missing.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import remove_files, write_atomically
from mambamatcher.jobs.engines import Input
from mambamatcher.jobs.job import LARGEST_SHARD, Job, Outcome, cut
from mambamatcher.jobs.journal import Result

FOLDER = "parts"
JOURNAL = "_run.jsonl"  # readers of Parquet folders skip names that begin with _
VERSION = 3
_NOT_COUNTS = ("shard", "content")  # entries of a shard's line in the journal; the others are counts
_VERSION_1 = "_run.json"  # where the first version described a run
_SHARD = re.compile(r"part-\d{6}\.(jsonl|parquet)")
_TEMPORARY = re.compile(r"\.part-\d{6}-\w+\.(jsonl|parquet)")

Write = Callable[[Sequence[Any], Path], Mapping[str, int]]


@dataclass(frozen=True)
class ShardFile:
    """Some of the inputs, and the file for their results."""

    path: Path
    items: Sequence[Any]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


def shard_job(
    out: Path,
    items: Sequence[Input],
    header: Mapping[str, Any],
    write: Write,
    *,
    suffix: str,
    finish: Callable[[Counter[str]], Outcome],
    digest: Callable[[Sequence[Any]], str],
) -> Job[Outcome]:
    """Return a job that writes one file for each shard of the items.

    Args:
        out: The folder of the run; the files go to its folder `parts`.
        items: Everything there is to do, in order.
        header: What the results depend on.
        write: Writes the results of some items to a file, and returns what it counted. It is sent to the workers.
        suffix: How the files' names end.
        finish: Gets the sums of what was counted.
        digest: Names the content of some items; a shard whose items have changed is done again.
    """
    folder = out.absolute() / FOLDER  # workers may run in another folder
    shards = cut(items, LARGEST_SHARD)
    names = "\n".join(item.name for item in items).encode("utf-8", "surrogateescape")
    described = {"list of inputs": sha256(names).hexdigest(), "inputs per shard": len(shards[0])}

    def total(results: list[Result]) -> Outcome:
        remove_files(*_find(folder, _TEMPORARY))  # left by a kill
        sums: Counter[str] = Counter()
        for result in results:
            sums.update({name: value for name, value in result.items() if name not in _NOT_COUNTS})
        return finish(sums)

    files = [ShardFile(folder / f"part-{number:06d}{suffix}", shard) for number, shard in enumerate(shards)]
    return Job(
        label="shards",
        inputs=files,
        header={"version": VERSION, **header, **described},
        journal=folder / JOURNAL,
        key="shard",
        work=partial(_write_shards, write, digest),
        finish=total,
        products=[*_find(folder, _SHARD), folder / _VERSION_1],
        check=partial(_check, folder, {file.name: file for file in files}, digest),
        largest_shard=1,
    )


def line_shards(out: Path) -> list[Path]:
    """Return the shards of JSON Lines in OUT/parts, of a larger run or one of version 1."""
    return [path for path in _find(out / FOLDER, _SHARD) if path.suffix == ".jsonl"]


def _find(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    return sorted(path for path in folder.glob("*") if pattern.fullmatch(path.name))


def _write_shards(
    write: Write, digest: Callable[[Sequence[Any]], str], shards: Sequence[ShardFile]
) -> Iterator[Result]:
    for shard in shards:
        counted: dict[str, int] = {}
        content = digest(shard.items)  # first, so that an input exchanged meanwhile is noticed later

        def fill(temporary: Path, shard: ShardFile = shard, counted: dict[str, int] = counted) -> None:
            counted.update(write(shard.items, temporary))
            with temporary.open("rb") as file:
                os.fsync(file)  # else a machine that goes down may leave the name of an empty file

        write_atomically(shard.path, fill, overwrite=True)
        yield {"shard": shard.name, "content": content, "bytes": shard.path.stat().st_size, **counted}


def _check(
    folder: Path, files: Mapping[str, ShardFile], digest: Callable[[Sequence[Any]], str], results: Iterable[Result]
) -> Iterator[Result]:
    """Yield the results whose files are there and whose inputs are the same, and refuse a file that has changed."""
    sizes = {path.name: path.stat().st_size for path in _find(folder, _SHARD)}
    for result in results:
        name = result["shard"]
        if not all(isinstance(count, int) for key, count in result.items() if key not in _NOT_COUNTS):
            raise InputError(
                f"{folder / JOURNAL}: the line of {name:.60} is damaged; use another folder or overwrite it"
            )
        if sizes.get(name, result.get("bytes")) != result.get("bytes"):
            raise InputError(
                f"{folder / name} has {sizes[name]} bytes, not the {result.get('bytes')} that were written; remove "
                "it, and the same command resumes"
            )
        if name in sizes and name in files and digest(files[name].items) == result.get("content"):
            yield result
