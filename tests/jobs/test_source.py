"""Images listed by a folder, a manifest or Parquet."""

import json
import re
import shutil
import threading

import pytest

from mambamatcher.errors import InputError
from mambamatcher.io.images import load_image
from mambamatcher.jobs.source import AHEAD, images, list_targets, read_ahead, read_source
from mambamatcher.tools.propagate import propagate


def test_a_manifest_and_parquet_give_what_the_folder_gives(matcher, references, work, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    import pyarrow

    names = list_targets(work / "targets")
    folder = propagate(matcher, references, read_source(work / "targets"), tmp_path / "folder")
    listed = tmp_path / "listed"
    shutil.copytree(work / "targets", listed)
    (listed / "list.txt").write_text("\ufeff" + "\n".join(["", *names, ""]), encoding="utf-8")
    parquet.write_table(pyarrow.table({"path": names}), listed / "paths.parquet")
    content = [(work / "targets" / name).read_bytes() for name in names]
    table = pyarrow.table({"path": names, "bytes": content})
    (tmp_path / "tables").mkdir()
    parquet.write_table(table[:3], tmp_path / "tables" / "a.parquet", row_group_size=2)
    parquet.write_table(table[3:], tmp_path / "tables" / "b.parquet", row_group_size=2)
    expected = [json.loads(line) for line in (tmp_path / "folder" / "points.jsonl").read_text().splitlines()][1:]
    # a table beside pictures does not make their folder a folder of tables
    for number, origin in enumerate((listed / "list.txt", listed / "paths.parquet", tmp_path / "tables", listed)):
        out = tmp_path / str(number)
        assert propagate(matcher, references, read_source(origin), out) == folder
        found = [json.loads(line) for line in (out / "points.jsonl").read_text().splitlines()][1:]
        assert sorted(found, key=lambda line: line["image"])[0].keys() == expected[0].keys()
        readable = [[line for line in lines if "error" not in line] for lines in (found, expected)]
        assert readable[0] == readable[1]
        assert [line["image"] for line in found if "error" in line] == ["broken.jpg"]
        thumbnails = [
            re.findall("base64,[^']+", (each / "review.html").read_text()) for each in (out, tmp_path / "folder")
        ]
        assert thumbnails[0] == thumbnails[1]
        assert len(thumbnails[0]) == len(names)  # the reference is shown too, and one target is broken


def test_images_in_parquet_are_read_by_row_group_in_any_order(work, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    import pyarrow

    names = [f"{number}.png" for number in range(5)]
    content = [(work / "targets" / name).read_bytes() for name in names]
    parquet.write_table(pyarrow.table({"path": names, "bytes": content}), tmp_path / "p.parquet", row_group_size=2)
    source = read_source(tmp_path / "p.parquet")
    for name, data in images([source.items[row] for row in (4, 0, 3, 2)]):
        assert load_image(data).tobytes() == load_image(work / "targets" / name).tobytes()


def _table(columns):
    import pyarrow.parquet

    content = pyarrow.BufferOutputStream()
    names, values = zip(*columns, strict=True)
    pyarrow.parquet.write_table(pyarrow.table(list(map(pyarrow.array, values)), names=names), content)
    return content.getvalue().to_pybytes()


def test_sources_that_cannot_be_used_are_refused(tmp_path):
    pytest.importorskip("pyarrow", reason="the scale extra is not installed")
    for name, content, says in (
        ("twice.txt", b"a.jpg\nb.jpg\na.jpg\n", "a.jpg twice"),
        ("empty.txt", b"\n", "lists no images"),
        ("bad.parquet", b"not parquet", "as Parquet"),
        ("gone.parquet", _table([("path", ["a"]), ("path", ["b"])]), "as Parquet"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a text file with one path per line"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=says):
            read_source(tmp_path / name)
    with pytest.raises(InputError, match="not a folder"):
        read_source(tmp_path / "gone")


def test_a_table_whose_pages_are_damaged_is_one_sentence(work, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    import pyarrow

    names = [f"{number}.png" for number in range(5)]
    content = [(work / "targets" / name).read_bytes() for name in names]
    path = tmp_path / "p.parquet"
    parquet.write_table(pyarrow.table({"path": names, "bytes": content}), path)
    whole = path.read_bytes()
    offsets = [parquet.ParquetFile(path).metadata.row_group(0).column(column).data_page_offset for column in (0, 1)]
    path.write_bytes(whole[: offsets[1]] + b"\xff" * 64 + whole[offsets[1] + 64 :])
    with pytest.raises(InputError, match=r"cannot read .*p\.parquet as Parquet: [^\n]+$"):
        list(images(read_source(path).items))
    path.write_bytes(whole[: offsets[0]] + b"\xff" * 16 + whole[offsets[0] + 16 :])
    with pytest.raises(InputError, match=r"cannot read .*p\.parquet as Parquet: [^\n]+$"):
        read_source(path)


def test_a_few_items_are_read_in_another_thread_while_one_is_used():
    read, threads, fifth = [], set(), threading.Event()

    def double(number: int) -> int:
        read.append(number)
        threads.add(threading.get_ident())
        if number == AHEAD:
            fifth.set()
        return 2 * number

    results = read_ahead(double, range(100))
    assert next(results) == 0
    assert fifth.wait(timeout=60)  # the next ones are read though nobody asks for them
    assert next(results) == 2
    assert len(read) <= AHEAD + 2  # and no more than these
    assert threads.isdisjoint({threading.get_ident()})
    assert list(results) == [2 * number for number in range(2, 100)]


def test_an_error_while_reading_ahead_is_raised_where_its_item_is_due():
    results = read_ahead(lambda number: 10 // (3 - number), range(6))
    assert [next(results) for _ in range(3)] == [3, 5, 10]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_items_read_by_several_threads_come_in_order_and_a_caller_that_stops_waits_for_no_more():
    together, begun = threading.Barrier(3, timeout=60), []

    def read(number):
        begun.append(number)
        if number < 3:
            together.wait()  # passed only if three are read at once
        return number

    assert list(read_ahead(read, range(50), threads=3)) == list(range(50))
    begun.clear()
    results = read_ahead(read, range(50), threads=3)
    next(results)
    results.close()
    assert len(begun) <= AHEAD + 3
