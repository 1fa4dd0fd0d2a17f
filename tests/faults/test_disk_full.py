"""A disk that fills up: one clear sentence, what was written stays whole, and the run goes on when there is room.

The same of training's checkpoints is in `tests/training/test_run.py`, of the cache in `tests/test_cache.py`.
"""

import errno
import json
import multiprocessing
import resource
from pathlib import Path

import pytest

from mambamatcher.errors import InputError
from mambamatcher.evaluation.predictions import Header, PredictionFile, read_predictions
from mambamatcher.io.atomic import write_atomically
from mambamatcher.jobs.engines import LocalEngine, run_missing
from mambamatcher.jobs.journal import Journal, read_journal
from mambamatcher.jobs.shards import Part, plan, read_lines, write_lines

SIDE = {"path": "a.jpg", "size": [30, 20], "bbox": None, "flip": False}
KEYPOINTS = ("source_points", "target_points", "predicted", "mirrored_points")
RECORD = {"category": "cat", "names": ["nose"], "source": SIDE, "target": SIDE, "variation": {}}
UNKNOWN = {"confidence": None, "seconds": None}
ITEMS = [
    {"image": f"{number}.jpg", "pair": f"{number}", **RECORD, **UNKNOWN, **{key: [[1.0, 2.0]] for key in KEYPOINTS}}
    for number in range(60)
]
HEADER = Header(
    model="m", configuration={}, dataset="d", split="s", reference="bbox", fingerprint="f", pairs=len(ITEMS)
)
LIMIT = 8192


def open_results(kind, path):
    return Journal(path, {"model": "m"}, "image") if kind == "journal" else PredictionFile(path, HEADER)


def write_items(kind, path, limit=None):
    """Add what is missing; with a limit no file can grow beyond it, as on a full disk."""
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with open_results(kind, path) as file:
        for item in ITEMS:
            if item["image" if kind == "journal" else "pair"] not in file.done:
                file.add(item)


def in_a_child(answer, function, *arguments):
    try:
        function(*arguments)
        answer.put(None)
    except BaseException as error:
        answer.put((type(error).__name__, str(error)))


def call_in_a_child(function, *arguments):
    """Return the name and message of what the function raises in a process of its own, whose limits die with it."""
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=in_a_child, args=(answer, function, *arguments))
    child.start()
    said = answer.get()
    child.join()
    return said


@pytest.mark.parametrize("kind", ["journal", "predictions"])
def test_results_up_to_a_full_disk_are_kept_and_gone_on_with(kind, tmp_path):
    path = tmp_path / "results.jsonl"
    name, said = call_in_a_child(write_items, kind, path, LIMIT)
    assert name == "InputError"
    assert said.startswith(f"cannot write {path}: ")
    assert path.stat().st_size == LIMIT  # with a torn last line
    if kind == "journal":
        kept = read_journal(path, first="")[1]
    else:
        kept = read_predictions(path).records
    assert kept == ITEMS[: len(kept)]
    assert len(kept) > 10
    write_items(kind, path)
    assert [json.loads(line) for line in path.read_text().splitlines()][1:] == ITEMS


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_finds_no_room_leaves_the_one_before_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "points.csv"
    path.write_text("before")
    with pytest.raises(InputError, match="No space left on device"):
        write_atomically(path, full, overwrite=True)
    monkeypatch.setattr("mambamatcher.io.atomic.NamedTemporaryFile", full)  # not even room for an empty file
    with pytest.raises(InputError, match="No space left on device"):
        write_atomically(path, lambda _: None, overwrite=True)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


class Writing:
    """Work that writes its items, until the disk is full."""

    suffix = ".jsonl"

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, items, path: Path) -> None:
        if self.room == 0:
            full()
        self.room -= 1
        write_lines(path, iter(items))


def test_parts_up_to_a_full_disk_are_kept_and_the_others_done_later(tmp_path):
    def parts() -> list[Part]:
        return plan(tmp_path, ".jsonl", {"model": "m"}, ITEMS, [item["image"] for item in ITEMS], overwrite=False)

    work = Writing(room=7)
    with pytest.raises(InputError, match="No space left on device"):
        run_missing(LocalEngine(), work, parts(), "items")
    assert list(read_lines(parts()[:7])) == ITEMS[:7]
    assert not any(part.path.exists() for part in parts()[7:])
    run_missing(LocalEngine(), Writing(room=len(ITEMS) - 7), parts(), "items")  # and no part again
    assert list(read_lines(parts())) == ITEMS
