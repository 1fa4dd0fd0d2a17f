import pytest

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import write_text_atomically


def test_text_is_written_as_utf_8_and_leaves_no_other_file(tmp_path):
    write_text_atomically(tmp_path / "page.md", "2048³ Δ\n")
    assert (tmp_path / "page.md").read_bytes() == b"2048\xc2\xb3 \xce\x94\n"
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_an_existing_file_is_replaced_only_if_wanted(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("old")
    with pytest.raises(InputError, match=r"page\.md exists"):
        write_text_atomically(path, "new")
    assert path.read_text() == "old"
    write_text_atomically(path, "new", overwrite=True)
    assert path.read_text() == "new"


def test_text_that_cannot_be_encoded_leaves_the_old_file(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_text_atomically(path, "\ud800", overwrite=True)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]
