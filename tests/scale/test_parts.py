import json
import sys

import numpy as np
import pytest

from mambamatcher.apps.propagate import list_targets
from mambamatcher.apps.propagate import propagate as propagate_folder
from mambamatcher.errors import BackendError, InputError
from mambamatcher.images import load_image
from mambamatcher.scale.engine import LocalEngine, RayEngine, make_engine, run_missing
from mambamatcher.scale.parts import plan, read_lines, write_lines
from mambamatcher.scale.run import extract_features, propagate
from mambamatcher.scale.sources import pictures, read_source


class Copying:
    suffix = ".jsonl"

    def write(self, items, path):
        write_lines(path, iter(items))


def items(count):
    return [{"image": str(number)} for number in range(count)]


def planned(folder, count, header=None, overwrite=False):
    everything = items(count)
    names = [each["image"] for each in everything]
    return plan(folder, ".jsonl", header or {"model": "m"}, everything, names, overwrite)


@pytest.mark.parametrize(("count", "parts"), [(1, 1), (64, 64), (65, 33), (500, 63), (100_000, 100)])
def test_parts_hold_every_input_once_in_order_and_no_more_than_a_thousand(tmp_path, count, parts):
    cut = planned(tmp_path, count)
    assert len(cut) == parts
    assert [item for part in cut for item in part.items] == items(count)
    assert max(len(part.items) for part in cut) <= 1000


def test_only_missing_parts_are_done(tmp_path):
    parts = planned(tmp_path, 70)
    run_missing(LocalEngine(), Copying(), parts, "items")
    for part in parts:
        part.path.chmod(0o400)
    parts[3].path.unlink()
    run_missing(LocalEngine(), Copying(), parts, "items")
    assert [part.path.stat().st_mode & 0o777 == 0o400 for part in parts].count(False) == 1
    assert list(read_lines(parts)) == items(70)


def test_parts_of_another_run_are_refused_until_overwriting_is_asked_for(tmp_path):
    run_missing(LocalEngine(), Copying(), planned(tmp_path, 10), "items")
    with pytest.raises(InputError, match="another model"):
        planned(tmp_path, 10, {"model": "other"})
    with pytest.raises(InputError, match="another list of inputs"):
        planned(tmp_path, 11)
    assert not any(part.path.exists() for part in planned(tmp_path, 11, overwrite=True))


def test_a_manifest_and_parquet_give_what_the_folder_gives(matcher, references, work, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    import pyarrow

    names = list_targets(work / "targets")
    folder = propagate_folder(matcher, references, work / "targets", tmp_path / "folder")
    manifest = work / "targets" / "list.txt"
    manifest.write_text("\n".join(["", *names, ""]))
    parquet.write_table(pyarrow.table({"path": names}), work / "targets" / "paths.parquet")
    content = [(work / "targets" / name).read_bytes() for name in names]
    table = pyarrow.table({"path": names, "bytes": content})
    (tmp_path / "tables").mkdir()
    parquet.write_table(table[:3], tmp_path / "tables" / "a.parquet", row_group_size=2)
    parquet.write_table(table[3:], tmp_path / "tables" / "b.parquet", row_group_size=2)
    expected = [json.loads(line) for line in (tmp_path / "folder" / "points.jsonl").read_text().splitlines()][1:]
    for number, origin in enumerate((manifest, work / "targets" / "paths.parquet", tmp_path / "tables")):
        out = tmp_path / str(number)
        assert propagate(LocalEngine(), matcher, references, read_source(origin), out, False) == folder
        found = [json.loads(line) for line in (out / "points.jsonl").read_text().splitlines()][1:]
        assert sorted(found, key=lambda line: line["image"])[0].keys() == expected[0].keys()
        readable = [[line for line in lines if "error" not in line] for lines in (found, expected)]
        assert readable[0] == readable[1]
        assert [line["image"] for line in found if "error" in line] == ["broken.jpg"]


def test_pictures_in_parquet_are_read_by_row_group_in_any_order(work, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    import pyarrow

    names = [f"{number}.png" for number in range(5)]
    content = [(work / "targets" / name).read_bytes() for name in names]
    parquet.write_table(pyarrow.table({"path": names, "bytes": content}), tmp_path / "p.parquet", row_group_size=2)
    source = read_source(tmp_path / "p.parquet")
    for name, data in pictures([source.items[row] for row in (4, 0, 3, 2)]):
        assert load_image(data).tobytes() == load_image(work / "targets" / name).tobytes()


def test_sources_that_cannot_be_used_are_refused(tmp_path):
    pytest.importorskip("pyarrow", reason="the scale extra is not installed")
    for name, content, says in (
        ("twice.txt", b"a.jpg\nb.jpg\na.jpg\n", "a.jpg twice"),
        ("empty.txt", b"\n", "lists no pictures"),
        ("bad.parquet", b"not parquet", "as Parquet"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=says):
            read_source(tmp_path / name)
    with pytest.raises(InputError, match="not a folder"):
        read_source(tmp_path / "gone")


def test_an_engine_that_is_not_there_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendError, match=r"mambamatcher\[scale\]"):
        make_engine("ray", None, None)
    with pytest.raises(InputError, match="--engine ray"):
        make_engine("local", None, 2)


def test_results_of_the_local_engine_are_not_mixed_with_parts(matcher, references, work, tmp_path):
    propagate_folder(matcher, references, work / "targets", tmp_path)
    with pytest.raises(InputError, match="local engine"):
        propagate(LocalEngine(), matcher, references, read_source(work / "targets"), tmp_path, overwrite=False)


def test_features_are_those_of_the_matcher_and_a_second_run_computes_none(matcher, work, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    source = read_source(work / "targets")
    done = extract_features(LocalEngine(), matcher, source, tmp_path, overwrite=False)
    assert (done.pictures, done.unreadable) == (8, 1)
    rows = {row["image"]: row for row in parquet.read_table(tmp_path / "parts").to_pylist()}
    assert sorted(rows) == list_targets(work / "targets")
    assert rows.pop("broken.jpg")["error"]
    for name, row in rows.items():
        expected = matcher.describe(work / "targets" / name)[0].numpy()
        np.testing.assert_allclose(np.reshape(row["features"], row["shape"]), expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(LocalEngine, "run", None)
    assert extract_features(LocalEngine(), matcher, source, tmp_path, overwrite=False) == done


@pytest.mark.parametrize(
    ("address", "problem", "said"),
    [
        (None, Exception("The node timed out.\nSee the logs"), "cannot start Ray on this machine: The node timed out."),
        ("auto", ConnectionError("no cluster"), "cannot use the Ray cluster at auto: no cluster"),
    ],
)
def test_a_ray_that_does_not_start_is_one_sentence(tmp_path, monkeypatch, address, problem, said):
    ray = pytest.importorskip("ray", reason="the scale extra is not installed")

    def init(**_):
        raise problem

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(BackendError) as raised:
        run_missing(RayEngine(address), Copying(), planned(tmp_path, 1), "items")
    assert str(raised.value) == said
