import json
import os

import pytest

from mambamatcher.errors import InputError
from mambamatcher.jobs.journal import Journal

HEADER = {"model": "m", "points": [1, 2]}
ITEMS = [{"image": f"{name}.jpg", "text": text} for name, text in (("a", "x\ny"), ("b", "\u2028ü"), ("c", "{"))]


def write(path, items, **options):
    with Journal(path, HEADER, "image", **options) as journal:
        for item in items:
            if item["image"] not in journal.results:
                journal.add(item)
        return list(journal.results.values())


def test_a_file_truncated_at_any_byte_is_resumed_and_ends_as_if_nothing_had_happened(tmp_path):
    write(tmp_path / "whole", ITEMS)
    whole = (tmp_path / "whole").read_bytes()
    for length in range(len(whole)):
        torn = tmp_path / "torn"
        torn.write_bytes(whole[:length])
        assert write(torn, ITEMS) == ITEMS, length
        assert torn.read_bytes() == whole, length


def test_each_item_is_in_the_file_before_the_next_begins(tmp_path):
    with Journal(tmp_path / "j", HEADER, "image") as journal:
        for count, item in enumerate(ITEMS, start=1):
            journal.add(item)
            lines = (tmp_path / "j").read_text(encoding="utf-8").splitlines()
            assert len(lines) == 1 + count
            assert json.loads(lines[-1]) == item


def test_sorted_lines_are_those_of_a_run_in_order_and_dropped_ones_are_gone(tmp_path):
    write(tmp_path / "expected", ITEMS)
    with Journal(tmp_path / "j", HEADER, "image") as journal:
        for item in (ITEMS[2], {"image": "b.jpg", "text": "stale"}, ITEMS[0]):
            journal.add(item)
        journal.drop(["b.jpg"])
        journal.add(ITEMS[1])
        journal.sort([item["image"] for item in ITEMS])
    assert (tmp_path / "j").read_bytes() == (tmp_path / "expected").read_bytes()
    before = (tmp_path / "j").stat()
    with Journal(tmp_path / "j", HEADER, "image") as journal:
        journal.sort([item["image"] for item in ITEMS[:2]])  # others stay, behind those asked for
    assert os.path.samestat(before, (tmp_path / "j").stat())


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({**HEADER, "points": [1]}, r"points was \[1, 2\], now \[1\]"),
        ({**HEADER, "points": list(range(100))}, "with another points"),
        ({**HEADER, "extra": {"side": 3}}, "extra was None"),
    ],
)
def test_another_run_is_refused_with_what_differs(tmp_path, header, says):
    write(tmp_path / "j", ITEMS)
    with pytest.raises(InputError, match=says):
        Journal(tmp_path / "j", header, "image")
    assert write(tmp_path / "j", []) == ITEMS


def test_foreign_files_are_refused_and_kept_until_overwriting_is_asked_for(tmp_path):
    path = tmp_path / "j"
    write(path, ITEMS)
    assert write(path, ITEMS[:1], overwrite=True) == ITEMS[:1]
    for content in (b"my notes", b"my\nnotes\n"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not written by this program"):
            Journal(path, HEADER, "image")
        assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b'{"my": "notes"', b"[1, 2]\n", b'{"model": "m"}\n[1]\n'])
def test_a_file_that_only_looks_like_a_journal_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "j"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"not written by this program|by another run"):
        Journal(path, HEADER, "image")
    assert path.read_bytes() == content


def test_two_runs_do_not_write_one_file_at_once(tmp_path):
    with Journal(tmp_path / "j", HEADER, "image") as first:
        for item in reversed(ITEMS):
            for overwrite in (False, True):
                with pytest.raises(InputError, match="another process is writing"):
                    Journal(tmp_path / "j", HEADER, "image", overwrite)
            first.add(item)
        first.sort([item["image"] for item in ITEMS])
        for overwrite in (False, True):  # products are written after the journal was sorted
            with pytest.raises(InputError, match="another process is writing"):
                Journal(tmp_path / "j", HEADER, "image", overwrite)
    assert write(tmp_path / "j", []) == ITEMS


def test_a_run_that_is_refused_removes_nothing(tmp_path):
    product = tmp_path / "product"
    with Journal(tmp_path / "j", HEADER, "image", products=[product]):
        product.write_text("of the first run")
        with pytest.raises(InputError, match="another process is writing"):
            Journal(tmp_path / "j", HEADER, "image", overwrite=True, products=[product])
    assert product.exists()
    Journal(tmp_path / "j", HEADER, "image", overwrite=True, products=[product])
    assert not product.exists()


def test_a_file_that_is_replaced_while_it_is_opened_is_not_written_to(tmp_path, monkeypatch):
    path = tmp_path / "j"
    write(path, ITEMS)

    def replace(_):
        os.replace(tmp_path / "other", path)

    (tmp_path / "other").write_bytes(b"of the process that held the lock")
    monkeypatch.setattr("mambamatcher.io.atomic._lock", replace)
    with pytest.raises(InputError, match="another process is writing"):
        Journal(path, HEADER, "image")
    assert path.read_bytes() == b"of the process that held the lock"
