"""Results that are files: shards of JSON Lines written without a model, and those of features and many targets."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from mambamatcher.errors import InputError
from mambamatcher.jobs.engines import LOCAL, LocalEngine
from mambamatcher.jobs.job import run
from mambamatcher.jobs.journal import write_lines
from mambamatcher.jobs.shards import shard_job
from mambamatcher.jobs.source import list_targets, read_source
from mambamatcher.tools.features import extract_features
from mambamatcher.tools.propagate import propagate
from tests.jobs.test_job import numbers


def copy(items, path):
    write_lines(path, [{"image": item.name} for item in items])
    return {"items": len(items)}


def names_of(items):
    return " ".join(item.name for item in items)


def copying(folder, count, header=None):
    return shard_job(
        folder,
        numbers(count),
        header or {"model": "m"},
        copy,
        suffix=".jsonl",
        finish=lambda counts: counts["items"],
        digest=names_of,
    )


def written(folder):
    paths = sorted((folder / "parts").glob("part-*.jsonl"))
    return [json.loads(line)["image"] for path in paths for line in path.read_text().splitlines()]


def test_every_input_is_in_one_file_and_counted(tmp_path):
    assert run(copying(tmp_path, 300), LOCAL) == 300
    assert written(tmp_path) == [str(number) for number in range(300)]
    assert len(list((tmp_path / "parts").glob("part-*.jsonl"))) == 100


def test_a_run_that_cut_its_inputs_in_another_way_is_not_resumed(tmp_path, monkeypatch):
    run(copying(tmp_path, 500), LOCAL)
    monkeypatch.setattr("mambamatcher.jobs.job.FEWEST_SHARDS", 10)
    with pytest.raises(InputError, match="inputs per shard was 4, now 50"):
        run(copying(tmp_path, 500), LOCAL)


def test_only_missing_shards_are_done(tmp_path):
    run(copying(tmp_path, 70), LOCAL)
    paths = sorted((tmp_path / "parts").glob("part-*.jsonl"))
    for path in paths:
        path.chmod(0o400)
    journal = (tmp_path / "parts" / "_run.jsonl").read_bytes()
    paths[3].unlink()
    assert run(copying(tmp_path, 70), LOCAL) == 70
    assert [path.stat().st_mode & 0o777 == 0o400 for path in paths].count(False) == 1
    assert written(tmp_path) == [str(number) for number in range(70)]
    assert (tmp_path / "parts" / "_run.jsonl").read_bytes() == journal


def test_shards_of_another_run_are_refused_until_overwriting_is_asked_for(tmp_path):
    run(copying(tmp_path, 10), LOCAL)
    with pytest.raises(InputError, match="model was 'm', now 'other'"):
        run(copying(tmp_path, 10, {"model": "other"}), LOCAL)
    with pytest.raises(InputError, match="another list of inputs"):
        run(copying(tmp_path, 11), LOCAL)
    assert run(copying(tmp_path, 4), LOCAL, overwrite=True) == 4
    assert written(tmp_path) == ["0", "1", "2", "3"]


def test_a_run_of_version_1_is_refused_until_overwriting_is_asked_for(matcher, references, work, tmp_path):
    (tmp_path / "parts").mkdir()
    for name in ("_run.json", "part-000000.jsonl"):
        (tmp_path / "parts" / name).write_text("{}\n")
    with pytest.raises(InputError, match=r"part-000000\.jsonl exists already"):
        run(copying(tmp_path, 3), LOCAL)
    source = read_source(work / "targets")
    with pytest.raises(InputError, match=r"part-000000\.jsonl exists already"):
        propagate(matcher, references, source, tmp_path)
    assert sorted(os.listdir(tmp_path / "parts")) == ["_run.json", "part-000000.jsonl"]
    run(copying(tmp_path, 2), LOCAL, overwrite=True)
    assert sorted(os.listdir(tmp_path / "parts")) == ["_run.jsonl", "part-000000.jsonl", "part-000001.jsonl"]
    propagate(matcher, references, source, tmp_path, overwrite=True)
    assert os.listdir(tmp_path / "parts") == ["_run.jsonl"]


def test_shards_of_a_run_nobody_knows_are_not_taken_for_ones_own(tmp_path):
    run(copying(tmp_path, 3), LOCAL)
    (tmp_path / "parts" / "_run.jsonl").unlink()
    with pytest.raises(InputError, match=r"part-000000\.jsonl exists already"):
        run(copying(tmp_path, 3), LOCAL)
    assert run(copying(tmp_path, 3), LOCAL, overwrite=True) == 3


def test_overwriting_removes_what_is_ours_and_nothing_else(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "parts").symlink_to(tmp_path / "real")
    run(copying(tmp_path / "out", 3), LOCAL)
    own = [tmp_path / "real" / name for name in ("thesis.txt", "part-1.doc", "part-000001.docx", "_run.txt")]
    for path in own:
        path.write_text("mine")
    assert run(copying(tmp_path / "out", 2), LOCAL, overwrite=True) == 2
    assert written(tmp_path / "out") == ["0", "1"]
    assert [path.read_text() for path in own] == ["mine"] * len(own)


def test_what_a_killed_worker_left_is_removed_by_a_run_that_ends_and_nothing_else(tmp_path):
    (tmp_path / "parts").mkdir()
    download, left = tmp_path / "parts" / ".part-download", tmp_path / "parts" / ".part-000001-abc.jsonl"
    for path in (download, left, tmp_path / "parts" / "part-000000.jsonl"):
        path.touch()
    with pytest.raises(InputError, match="exists already"):
        run(copying(tmp_path, 3), LOCAL)
    assert download.exists()
    assert left.exists()
    (tmp_path / "parts" / "part-000000.jsonl").unlink()
    run(copying(tmp_path, 3), LOCAL)
    assert download.exists()
    assert not left.exists()


def test_a_shard_that_lost_its_content_is_named(tmp_path, matcher, work):
    pytest.importorskip("pyarrow", reason="the scale extra is not installed")
    run(copying(tmp_path / "lines", 2), LOCAL)
    (tmp_path / "lines" / "parts" / "part-000001.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match=r"part-000001\.jsonl has 0 bytes, not the 15"):
        run(copying(tmp_path / "lines", 2), LOCAL)
    source = read_source(work / "targets")
    extract_features(matcher, source, tmp_path)
    (tmp_path / "parts" / "part-000002.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"part-000002\.parquet has 0 bytes.*remove it"):
        extract_features(matcher, source, tmp_path)
    (tmp_path / "parts" / "part-000002.parquet").unlink()
    assert extract_features(matcher, source, tmp_path).unreadable == 1


def test_a_damaged_journal_of_shards_is_one_sentence(tmp_path):
    run(copying(tmp_path, 2), LOCAL)
    journal = tmp_path / "parts" / "_run.jsonl"
    journal.write_text(journal.read_text().replace('"items": 1', '"items": "one"'))
    with pytest.raises(InputError, match=r"_run\.jsonl: the line of part-000000\.jsonl is damaged"):
        run(copying(tmp_path, 2), LOCAL)


def test_features_are_those_of_the_matcher_and_a_second_run_computes_none(matcher, work, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    source = read_source(work / "targets")
    done = extract_features(matcher, source, tmp_path)
    assert (done.images, done.unreadable) == (8, 1)
    rows = {row["image"]: row for row in parquet.read_table(tmp_path / "parts").to_pylist()}
    assert sorted(rows) == list_targets(work / "targets")
    assert rows.pop("broken.jpg")["error"]
    for name, row in rows.items():
        expected = matcher.encode(work / "targets" / name)
        np.testing.assert_allclose(np.reshape(row["features"], row["shape"]), expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(LocalEngine, "run", lambda *_: pytest.fail("a shard is done again"))
    assert extract_features(matcher, source, tmp_path) == done


def test_features_go_into_a_folder_whose_name_is_not_text(matcher, work, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
    out = tmp_path / os.fsdecode(b"out\xff")
    extract_features(matcher, read_source(work / "targets"), out)
    with (out / "parts" / "part-000000.parquet").open("rb") as file:
        assert parquet.read_table(file).num_rows == 1


def test_very_many_targets_have_the_same_results_in_shards_and_no_other_files(
    matcher, references, work, tmp_path, monkeypatch
):
    source = read_source(work / "targets")
    gathered = propagate(matcher, references, source, tmp_path / "gathered")
    monkeypatch.setattr("mambamatcher.tools.propagate.GATHERED", len(source.items) - 1)
    assert propagate(matcher, references, source, tmp_path / "shards") == replace(gathered, next=None)
    assert os.listdir(tmp_path / "shards") == ["parts"]
    shards = sorted((tmp_path / "shards" / "parts").glob("part-*.jsonl"))
    _, *lines = (tmp_path / "gathered" / "points.jsonl").read_text().splitlines(keepends=True)
    assert "".join(path.read_text() for path in shards) == "".join(lines)
    assert propagate(matcher, references, source, tmp_path / "shards") == replace(
        gathered, next=None
    )  # nothing is left to do
    with pytest.raises(InputError, match=r"points\.jsonl exists already"):
        propagate(matcher, references, source, tmp_path / "gathered")
