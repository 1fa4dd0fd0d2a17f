import json
import os
import re
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

from mambamatcher.errors import BackendError, InputError
from mambamatcher.evaluation.evaluate import Request, evaluate
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.io.images import load_image
from mambamatcher.jobs.engines import LocalEngine, RayEngine, make_engine, run_missing
from mambamatcher.jobs.shards import plan, read_lines, write_lines
from mambamatcher.jobs.source import pictures, read_source
from mambamatcher.tools.propagate import list_targets
from mambamatcher.tools.propagate import propagate as propagate_folder
from mambamatcher.tools.sharded import extract_features, predict_with, propagate
from tests.datasets import releases


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


@pytest.mark.parametrize(
    ("count", "parts"), [(1, 1), (128, 128), (129, 65), (500, 125), (100_000, 128), (200_000, 200)]
)
def test_parts_hold_every_input_once_in_order_and_no_more_than_a_thousand(tmp_path, count, parts):
    cut = planned(tmp_path, count)
    assert len(cut) == parts
    assert [item for part in cut for item in part.items] == items(count)
    assert max(len(part.items) for part in cut) <= 1000


def test_a_run_that_cut_its_inputs_in_another_way_is_not_gone_on_with(tmp_path, monkeypatch):
    planned(tmp_path, 500)
    monkeypatch.setattr("mambamatcher.jobs.shards.FEWEST", 10)
    with pytest.raises(InputError, match="another number of inputs a part"):
        planned(tmp_path, 500)


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
        assert propagate(LocalEngine(), matcher, references, read_source(origin), out, False) == folder
        found = [json.loads(line) for line in (out / "points.jsonl").read_text().splitlines()][1:]
        assert sorted(found, key=lambda line: line["image"])[0].keys() == expected[0].keys()
        readable = [[line for line in lines if "error" not in line] for lines in (found, expected)]
        assert readable[0] == readable[1]
        assert [line["image"] for line in found if "error" in line] == ["broken.jpg"]
        thumbnails = [
            re.findall("base64,[^']+", (each / "review.html").read_text()) for each in (out, tmp_path / "folder")
        ]
        assert thumbnails[0] == thumbnails[1]
        assert len(thumbnails[0]) == len(names) - 1


def test_pictures_in_parquet_are_read_by_row_group_in_any_order(work, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    import pyarrow

    names = [f"{number}.png" for number in range(5)]
    content = [(work / "targets" / name).read_bytes() for name in names]
    parquet.write_table(pyarrow.table({"path": names, "bytes": content}), tmp_path / "p.parquet", row_group_size=2)
    source = read_source(tmp_path / "p.parquet")
    for name, data in pictures([source.items[row] for row in (4, 0, 3, 2)]):
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
        ("empty.txt", b"\n", "lists no pictures"),
        ("bad.parquet", b"not parquet", "as Parquet"),
        ("gone.parquet", _table([("path", ["a"]), ("path", ["b"])]), "as Parquet"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a text file with one path a line"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=says):
            read_source(tmp_path / name)
    with pytest.raises(InputError, match="not a folder"):
        read_source(tmp_path / "gone")


def test_an_engine_is_made_as_asked_for_or_refused_in_one_sentence(monkeypatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "ray", None)
        with pytest.raises(BackendError, match=r"mambamatcher\[scale\]"):
            make_engine("ray", None, None)
    with pytest.raises(InputError, match="--engine ray"):
        make_engine("local", None, 2)
    with pytest.raises(InputError, match="HOST:PORT"):
        make_engine("ray", "ray://head:10001", None)
    pytest.importorskip("ray", reason="the scale extra is not installed")
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")  # as Ray's jobs have it
    assert make_engine("ray", None, None) == RayEngine("head:6379")
    assert make_engine("ray", "local", 2) == RayEngine("local", 2)
    assert make_engine("local", None, None) == LocalEngine()
    with pytest.raises(InputError, match="give --device cuda, not cuda:1"):
        make_engine("ray", None, None, "cuda:1")


@pytest.mark.parametrize(
    ("engine", "resources", "parts", "size"),
    [
        (RayEngine(), {"CPU": 6.0, "GPU": 2.0}, 100, (6, 0)),
        (RayEngine(workers=3), {"CPU": 6.0}, 2, (2, 0)),
        (RayEngine(device="cuda"), {"CPU": 6.0, "GPU": 2.0}, 100, (2, 1)),
        (RayEngine(device="cuda"), {"CPU": 6.0, "GPU": 4.0}, 3, (3, 1)),
        (RayEngine(workers=16, device="cuda"), {"CPU": 32.0, "GPU": 4.0}, 100, (16, 0.25)),
        (RayEngine(workers=7, device="cuda"), {"CPU": 32.0, "GPU": 4.0}, 100, (7, 0.5)),
        (RayEngine(workers=3, device="cuda"), {"CPU": 32.0, "GPU": 1.0}, 100, (3, 0.3333)),
    ],
)
def test_workers_are_as_many_as_cores_or_gpus_or_as_asked_for(engine, resources, parts, size):
    assert engine._size(resources, parts) == size


def test_a_cluster_without_gpus_is_said_so():
    with pytest.raises(BackendError, match="has no GPU"):
        RayEngine(device="cuda")._size({"CPU": 8.0}, 10)


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
        expected = matcher.encode(work / "targets" / name)[0].numpy()
        np.testing.assert_allclose(np.reshape(row["features"], row["shape"]), expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(LocalEngine, "run", lambda *_: pytest.fail("a part is done again"))
    assert extract_features(LocalEngine(), matcher, source, tmp_path, overwrite=False) == done


@pytest.mark.parametrize(
    ("address", "problem", "said"),
    [
        (None, Exception("The node timed out.\nSee the logs"), "cannot start Ray on this machine: The node timed out."),
        (
            "auto",
            ConnectionError("no cluster"),
            "cannot use the Ray cluster at auto: no cluster; if it has a token, set RAY_AUTH_MODE=token",
        ),
    ],
)
def test_a_ray_that_does_not_start_is_one_sentence(tmp_path, monkeypatch, address, problem, said):
    ray = pytest.importorskip("ray", reason="the scale extra is not installed")

    def init(**_):
        raise problem

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(BackendError) as raised:
        run_missing(RayEngine(address), Copying(), planned(tmp_path, 1), "items")
    assert str(raised.value) == said


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
        list(pictures(read_source(path).items))
    path.write_bytes(whole[: offsets[0]] + b"\xff" * 16 + whole[offsets[0] + 16 :])
    with pytest.raises(InputError, match=r"cannot read .*p\.parquet as Parquet: [^\n]+$"):
        read_source(path)


def test_parts_of_a_run_nobody_knows_are_not_taken_for_ones_own(tmp_path):
    run_missing(LocalEngine(), Copying(), planned(tmp_path, 3), "items")
    (tmp_path / "parts" / "_run.json").unlink()  # as a stop in the middle of overwriting leaves it
    with pytest.raises(InputError, match=r"but not the _run\.json"):
        planned(tmp_path, 3)
    assert not any(part.path.exists() for part in planned(tmp_path, 3, overwrite=True))


def test_overwriting_removes_what_is_ours_and_nothing_else(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "parts").symlink_to(tmp_path / "real")
    run_missing(LocalEngine(), Copying(), planned(tmp_path / "out", 3), "items")
    assert not any(part.path.exists() for part in planned(tmp_path / "out", 3, overwrite=True))
    (tmp_path / "real" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"thesis\.txt is not this program's"):
        planned(tmp_path / "out", 3, overwrite=True)
    assert (tmp_path / "real" / "thesis.txt").read_text() == "mine"


def test_a_part_that_lost_its_content_is_named(tmp_path, matcher, work):
    pytest.importorskip("pyarrow", reason="the scale extra is not installed")
    parts = planned(tmp_path / "lines", 2)
    run_missing(LocalEngine(), Copying(), parts, "items")
    parts[1].path.write_bytes(b"")
    with pytest.raises(InputError, match=r"part-000001\.jsonl has 0 whole results of 1"):
        list(read_lines(parts))
    source = read_source(work / "targets")
    extract_features(LocalEngine(), matcher, source, tmp_path, overwrite=False)
    (tmp_path / "parts" / "part-000002.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"part-000002\.parquet has 0 whole results of 1"):
        extract_features(LocalEngine(), matcher, source, tmp_path, overwrite=False)


def test_files_of_the_users_own_stay_where_a_run_in_parts_would_write(matcher, references, work, tmp_path):
    source = read_source(work / "targets")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "points.csv").write_text("my notes")
    with pytest.raises(InputError, match=r"points\.csv exists already"):
        propagate(LocalEngine(), matcher, references, source, tmp_path / "own", overwrite=False)
    propagate(LocalEngine(), matcher, references, source, tmp_path / "mixed", overwrite=False)
    propagate_folder(matcher, references[:1] * 2, work / "targets", tmp_path / "mixed", overwrite=True)
    with pytest.raises(InputError, match=r"points\.jsonl was written by another run"):
        propagate(LocalEngine(), matcher, references, source, tmp_path / "mixed", overwrite=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot use .*file.* as a folder"):
        propagate(LocalEngine(), matcher, references, source, tmp_path / "file", overwrite=False)


def test_a_file_that_is_not_ours_is_kept_by_a_run_that_is_refused_and_by_one_that_is_not(tmp_path):
    (tmp_path / "parts").mkdir()
    download, left = tmp_path / "parts" / ".part-download", tmp_path / "parts" / ".part-000001-abc.jsonl"
    for path in (download, left):
        path.touch()
        os.utime(path, (0, 0))
    (tmp_path / "parts" / "part-000000.jsonl").touch()
    with pytest.raises(InputError, match=r"but not the _run\.json"):
        planned(tmp_path, 3)
    assert download.exists()
    assert left.exists()
    (tmp_path / "parts" / "part-000000.jsonl").unlink()
    planned(tmp_path, 3)
    assert download.exists()
    assert not left.exists()


class Stopped(LocalEngine):
    """Does one part and then is killed."""

    def run(self, work, parts):
        yield from super().run(work, parts[:1])
        raise KeyboardInterrupt


def test_a_run_that_overwrites_goes_on_after_a_stop(matcher, references, work, tmp_path):
    source = read_source(work / "targets")
    propagate(LocalEngine(), matcher, references[:1], source, tmp_path, overwrite=False)
    with pytest.raises(KeyboardInterrupt):
        propagate(Stopped(), matcher, references[:1] * 2, source, tmp_path, overwrite=True)
    first = tmp_path / "parts" / "part-000000.jsonl"
    done = first.stat()
    propagate(LocalEngine(), matcher, references[:1] * 2, source, tmp_path, overwrite=False)
    assert first.stat().st_mtime_ns == done.st_mtime_ns
    assert len((tmp_path / "points.jsonl").read_text().splitlines()) == 1 + len(source.items)


def test_predictions_that_the_local_engine_added_are_not_lost(matcher, tmp_path):
    releases.write_spair(tmp_path, [releases.spair_annotation(f"{n:06d}-one-two:cat") for n in range(4)])
    request = Request(dataset="spair", split="test", root=tmp_path, output=tmp_path / "out")
    predictor = MatcherPredictor("small", matcher)
    in_parts = predict_with(LocalEngine())
    evaluate(predictor, replace(request, limit=2), predict=in_parts)
    evaluate(predictor, request)
    with pytest.raises(InputError, match="holds 4 results, more than the 2 asked for"):
        evaluate(predictor, replace(request, limit=2), predict=in_parts)


def test_features_go_into_a_folder_whose_name_is_not_text(matcher, work, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    out = tmp_path / os.fsdecode(b"out\xff")
    extract_features(LocalEngine(), matcher, read_source(work / "targets"), out, overwrite=False)
    with (out / "parts" / "part-000000.parquet").open("rb") as file:
        assert parquet.read_table(file).num_rows == 1
