import errno
import os
import threading
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mambamatcher.errors import InputError
from mambamatcher.io.tensor_store import TensorStore, digest


class MemoryCache:
    """Single tensors in the memory of a store without a folder."""

    def __init__(self, limit: int) -> None:
        self.store = TensorStore(limit)
        self.evict, self.clear = self.store.evict, self.store.clear

    def put(self, key, tensor) -> None:
        self.store.put(key, [tensor])

    def get(self, key):
        return (self.store.get(key) or [None])[0]


class DiskCache:
    """The folder of a store that keeps nothing in memory."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self.store = TensorStore(0, folder, limit)

    def put(self, name: str, tensors) -> None:
        self.store.put((name,), tensors, lambda: name)

    def get(self, name: str):
        return self.store.get((name,), lambda: name)


def floats(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.float32)


def test_the_least_recently_used_tensors_go_when_the_bytes_run_out():
    cache = MemoryCache(limit=100)
    cache.put(("a",), floats(10))
    cache.put(("b",), floats(10))
    assert cache.get(("a",)) is not None  # now b is the older one
    cache.put(("c",), floats(10))
    assert cache.get(("b",)) is None
    assert cache.get(("a",)) is not None
    cache.put(("too large",), floats(26))
    assert cache.get(("too large",)) is None
    cache.put(("a",), floats(15))  # replaces, and counts once
    assert cache.get(("c",)) is not None
    assert cache.get(("a",)).size == 15
    cache.clear()
    assert cache.get(("a",)) is cache.get(("c",)) is None


def test_what_a_part_of_the_key_names_is_forgotten_and_leaves_its_room():
    cache = MemoryCache(limit=100)
    cache.put(("m", "one"), floats(8))
    cache.put(("m", "one", "two"), floats(8))
    cache.put(("m", "two"), floats(8))
    cache.evict("one")
    assert cache.get(("m", "one")) is cache.get(("m", "one", "two")) is None
    cache.put(("m", "three"), floats(17))
    assert cache.get(("m", "two")) is not None


def test_many_threads_never_exceed_the_limit():
    cache = MemoryCache(limit=400)

    def work(start: int) -> None:
        for i in range(300):
            cache.put(((start + i) % 17,), floats(i % 20 + 1))
            cache.get((i % 17,))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [cache.get((key,)) for key in range(17)]
    assert 0 < sum(each.nbytes for each in held if each is not None) <= 400


def test_tensors_come_back_from_disk_as_they_were_and_in_order(tmp_path):
    rng = np.random.default_rng(0)
    several = rng.standard_normal((12, 3))  # more than ten, so that names sorted as text would mix them up
    shared = rng.standard_normal((2, 3, 4))
    tensors = [shared.transpose(2, 0, 1), shared, *several, floats(3).astype(np.float16), np.array(7), np.empty((0, 2))]
    DiskCache(tmp_path / "new" / "folder").put("one", tensors)
    found = DiskCache(tmp_path / "new" / "folder").get("one")
    assert [each.dtype for each in found] == [each.dtype for each in tensors]
    assert all(np.array_equal(a, b) for a, b in zip(found, tensors, strict=True))
    assert DiskCache(tmp_path).get("one") is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "not ours", "a folder"])
def test_a_damaged_file_is_not_trusted_and_can_be_replaced(tmp_path, damage, caplog):
    cache = DiskCache(tmp_path)
    cache.put("one", [floats(50), floats(3)])
    path = next(tmp_path.iterdir())
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[:-20])
    elif damage == "flipped":
        content[-10] ^= 1
        path.write_bytes(content)
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "not ours":  # readable, but nobody vouches for its values
        save_file({"0": floats(50), "1": floats(3)}, path)
    else:
        path.unlink()
        path.mkdir()
    assert cache.get("one") is None
    cache.put("one", [floats(50), floats(3)])
    if damage == "a folder":
        assert "cannot keep" in caplog.text
    else:
        assert "damaged" in caplog.text
        assert np.array_equal(cache.get("one")[0], floats(50))


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def entry_bytes(folder: Path, tensor: np.ndarray) -> int:
    DiskCache(folder).put("one", [tensor])
    return bytes_in(folder)


def test_the_least_recently_used_files_go_when_the_bytes_run_out(tmp_path):
    one = entry_bytes(tmp_path / "one", floats(1000))
    folder = tmp_path / "cache"
    cache = DiskCache(folder, limit=4 * one)
    for age, name in enumerate("dcba"):
        cache.put(name, [floats(1000)])
        os.utime(folder / f"{name}.safetensors", (1e9 - age, 1e9 - age))  # a the oldest, d the latest
    assert bytes_in(folder) == 4 * one
    assert cache.get("a") is not None  # now b is the oldest
    cache.put("e", [floats(1000)])
    assert {name for name in "abcde" if cache.get(name) is not None} == {"a", "d", "e"}  # a tenth more than was needed
    cache.put("too large", [floats(5000)])
    assert cache.get("too large") is None
    assert cache.get("a") is not None


def test_a_limited_folder_never_holds_more_and_keeps_most_of_it(tmp_path):
    one = entry_bytes(tmp_path / "one", floats(100))
    folder = tmp_path / "cache"
    cache = DiskCache(folder, limit=30 * one)
    for index in range(100):
        cache.put(str(index), [floats(100)])
        assert bytes_in(folder) <= 30 * one
        assert len(list(folder.iterdir())) >= min(index + 1, 26)


def test_what_a_killed_process_left_unfinished_makes_room_too(tmp_path):
    folder = tmp_path / "cache"
    cache = DiskCache(folder, limit=10_000)
    left = folder / ".one-abcdef.safetensors"
    left.write_bytes(bytes(9_000))
    os.utime(left, (0, 0))
    cache.put("two", [floats(500)])
    assert not left.exists()
    assert cache.get("two") is not None


def write_and_read(folder: Path, limit: int) -> None:
    """Use a folder as one process of several: every answer is right or missing."""
    cache = DiskCache(folder, limit)
    for turn in range(150):
        number = turn * 7 % 20
        found = cache.get(str(number))
        if found is None:
            cache.put(str(number), [np.full(100, float(number)), floats(number)])
        else:
            assert np.array_equal(found[0], np.full(100, float(number)))
            assert np.array_equal(found[1], floats(number))


def test_processes_share_a_limited_folder_without_disturbing_each_other(tmp_path):
    processes = [
        get_context("spawn").Process(target=write_and_read, args=(tmp_path / "cache", 6_000)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    write_and_read(tmp_path / "cache", 6_000)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert 0 < bytes_in(tmp_path / "cache") <= 1.2 * 6_000  # a tenth for each further writer
    assert not list((tmp_path / "cache").glob(".*"))


def test_a_full_disk_costs_time_and_one_warning(tmp_path, monkeypatch, caplog):
    def half_written(path: Path, content: bytes) -> None:
        path.write_bytes(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = DiskCache(tmp_path)
    monkeypatch.setattr("mambamatcher.io.tensor_store._write", half_written)
    cache.put("one", [floats(50)])
    cache.put("two", [floats(50)])
    assert cache.get("one") is cache.get("two") is None
    assert not list(tmp_path.iterdir())
    assert caplog.text.count("No space left") == 1
    monkeypatch.undo()
    cache.put("one", [floats(50)])  # there is space again
    assert cache.get("one") is not None


def test_a_folder_that_vanishes_costs_time_only(tmp_path, caplog):
    cache = DiskCache(tmp_path / "cache", limit=10_000)
    (tmp_path / "cache").rmdir()
    cache.put("one", [floats(50)])
    assert cache.get("one") is None
    assert "cannot keep" in caplog.text


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot use"):
        DiskCache(tmp_path / "file" / "folder")


def test_digests_tell_values_shapes_and_types_apart():
    different = [
        floats(6),
        floats(6).reshape(2, 3),
        floats(6).astype(int),
        floats(6) + 1,
        floats(6).astype(float),
        "six",
        "seven",
    ]
    assert len({digest(each) for each in different}) == len(different)
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4
    assert digest(floats(6).reshape(2, 3).T) == digest(np.ascontiguousarray(floats(6).reshape(2, 3).T))
