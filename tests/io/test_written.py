import os

import pytest

from mambamatcher.errors import InputError
from mambamatcher.io.written import WrittenFiles


def test_a_file_is_changed_when_a_byte_of_it_is_and_a_missing_one_is_not(tmp_path):
    written = WrittenFiles(tmp_path)
    written.write("a.csv", "x,y\n")
    assert not WrittenFiles(tmp_path).is_changed("a.csv")
    (tmp_path / "a.csv").write_text("x,y")
    assert WrittenFiles(tmp_path).is_changed("a.csv")
    (tmp_path / "a.csv").unlink()
    assert not WrittenFiles(tmp_path).is_changed("a.csv")
    (tmp_path / "b.csv").write_text("mine")
    assert WrittenFiles(tmp_path).is_changed("b.csv")
    assert not WrittenFiles(tmp_path).has("b.csv")


@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_a_kill_at_any_moment_leaves_a_file_that_is_known(tmp_path, monkeypatch, stop_at):
    WrittenFiles(tmp_path).write("a.csv", "old")
    writes = []

    def stopping(temporary, path):
        writes.append(path.name)
        if len(writes) == stop_at:
            raise KeyboardInterrupt
        replace(temporary, path)

    replace = os.replace
    monkeypatch.setattr(os, "replace", stopping)
    with pytest.raises(KeyboardInterrupt):
        WrittenFiles(tmp_path).write("a.csv", "new")
    assert not WrittenFiles(tmp_path).is_changed("a.csv")
    assert (tmp_path / "a.csv").read_text() == ("new" if stop_at == 3 else "old")


@pytest.mark.parametrize("content", ["", "[]", '{"version": 1}', '{"version": 1, "files": 3}', '{"version": 9}', "{"])
def test_a_damaged_record_is_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "written.json").write_text(content)
    with pytest.raises(InputError, match=r"written\.json is"):
        WrittenFiles(tmp_path)
