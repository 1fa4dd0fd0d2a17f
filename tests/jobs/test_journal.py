import json

import pytest

from mambamatcher.errors import InputError
from mambamatcher.jobs.journal import Journal

HEADER = {"model": "m", "points": [1, 2]}
ITEMS = [{"image": f"{name}.jpg", "text": text} for name, text in (("a", "x\ny"), ("b", "\u2028ü"), ("c", "{"))]


def write(path, items, **options):
    with Journal(path, HEADER, "image", **options) as journal:
        for item in items:
            if item["image"] not in journal.done:
                journal.add(item)
        return list(journal.done.values())


def test_a_file_torn_at_any_byte_is_gone_on_with_and_ends_as_if_nothing_had_happened(tmp_path):
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


def test_another_run_and_foreign_files_are_refused_and_kept_until_overwriting_is_asked_for(tmp_path):
    path = tmp_path / "j"
    write(path, ITEMS)
    with pytest.raises(InputError, match="with another points"):
        Journal(path, {**HEADER, "points": [1]}, "image")
    assert write(path, []) == ITEMS
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
        for item in ITEMS:
            with pytest.raises(InputError, match="another process is writing"):
                Journal(tmp_path / "j", HEADER, "image")
            first.add(item)
    assert write(tmp_path / "j", []) == ITEMS
