"""A disk that fills up: one clear sentence, what was written stays whole, and the run resumes when there is room.

The same of training's checkpoints is in `tests/training/test_run.py`, of the cache in `tests/test_cache.py`.
"""

import errno
import json
import multiprocessing
import resource

import pytest

from mambamatcher import MambaMatcher, presets
from mambamatcher.errors import InputError
from mambamatcher.io.atomic import write_atomically
from mambamatcher.jobs.engines import LOCAL
from mambamatcher.jobs.job import run
from mambamatcher.jobs.journal import Journal
from mambamatcher.model.checkpoint import save_pretrained
from tests.jobs.test_job import squaring
from tests.jobs.test_shards import copy, copying, written

ITEMS = [{"image": f"{number}.jpg", "points": [[1.0, 2.0]] * 20} for number in range(60)]
LIMIT = 8192
MODEL = MambaMatcher(presets.tiny())


def write_items(path, limit=None):
    """Add what is missing; with a limit no file can grow beyond it, as on a full disk."""
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with Journal(path, {"model": "m"}, "image") as journal:
        for item in ITEMS:
            if item["image"] not in journal.results:
                journal.add(item)


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


def test_results_up_to_a_full_disk_are_kept_and_resumed(tmp_path):
    path = tmp_path / "results.jsonl"
    name, said = call_in_a_child(write_items, path, LIMIT)
    assert name == "InputError"
    assert said.startswith(f"cannot write {path}: ")
    assert path.stat().st_size == LIMIT  # with a truncated last line
    with Journal(path, {"model": "m"}, "image") as journal:
        kept = list(journal.results.values())
    assert kept == ITEMS[: len(kept)]
    assert len(kept) > 10
    write_items(path)
    assert [json.loads(line) for line in path.read_text().splitlines()][1:] == ITEMS


def save_model(folder, limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    save_pretrained(MODEL, folder)


def test_a_model_that_finds_no_room_is_one_sentence_and_leaves_nothing(tmp_path):
    name, said = call_in_a_child(save_model, tmp_path / "model", LIMIT)
    assert (name, said) == ("InputError", f"cannot write {tmp_path / 'model' / 'model.safetensors'}: File too large")
    assert not list((tmp_path / "model").iterdir())


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


def test_shards_up_to_a_full_disk_are_kept_and_the_others_done_later(tmp_path, monkeypatch):
    done = []

    def write(items, path):
        if len(done) == 7:
            full()
        done.extend(items)
        return copy(items, path)

    monkeypatch.setattr("tests.jobs.test_shards.copy", write)
    with pytest.raises(InputError, match=r"cannot write .*part-000007\.jsonl: No space left on device"):
        run(copying(tmp_path, 60), LOCAL)
    assert written(tmp_path) == [str(number) for number in range(7)]
    monkeypatch.setattr("tests.jobs.test_shards.copy", copy)
    assert run(copying(tmp_path, 60), LOCAL) == 60
    assert written(tmp_path) == [str(number) for number in range(60)]


def test_a_sorted_journal_that_finds_no_room_leaves_the_one_before(tmp_path, monkeypatch):
    job = squaring(tmp_path, 3)
    run(job, LOCAL)
    header, *lines = job.journal.read_text().splitlines(keepends=True)
    job.journal.write_text(header + "".join(reversed(lines)))
    before = job.journal.read_bytes()
    with monkeypatch.context() as context:
        context.setattr("mambamatcher.jobs.journal.write_lines", full)
        with pytest.raises(InputError, match="No space left on device"):
            run(job, LOCAL)
    assert job.journal.read_bytes() == before
    assert run(job, LOCAL) == [0, 1, 4]
