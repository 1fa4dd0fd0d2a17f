"""The Ray engine on a small cluster of this machine, started once."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="the scale extra is not installed")
pytest.importorskip("pyarrow", reason="the scale extra is not installed")
import pyarrow.parquet  # noqa: E402

from mambamatcher.apps.propagate import RESULTS  # noqa: E402
from mambamatcher.apps.propagate import propagate as propagate_folder  # noqa: E402
from mambamatcher.errors import InputError  # noqa: E402
from mambamatcher.evaluation.predictors import MatcherPredictor  # noqa: E402
from mambamatcher.evaluation.run import Request, evaluate  # noqa: E402
from mambamatcher.scale.engine import RayEngine, run_missing  # noqa: E402
from mambamatcher.scale.parts import plan, read_lines, write_lines  # noqa: E402
from mambamatcher.scale.run import extract_features, predict_with, propagate  # noqa: E402
from mambamatcher.scale.sources import read_source  # noqa: E402
from tests.data import releases  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def _cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_propagate_writes_the_bytes_of_the_local_engine_and_goes_on_with_other_workers(
    matcher, references, work, tmp_path
):
    source = read_source(work / "targets")
    expected = propagate_folder(matcher, references, work / "targets", tmp_path / "local")
    assert propagate(RayEngine(workers=2), matcher, references, source, tmp_path / "ray", False) == expected
    (tmp_path / "ray" / "parts" / "part-000002.jsonl").unlink()
    (tmp_path / "ray" / RESULTS).unlink()
    assert propagate(RayEngine(workers=1), matcher, references, source, tmp_path / "ray", False) == expected
    for name in ("points.jsonl", "points.csv", "points.coco.json", "review.html"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    # complete for the local engine too
    assert propagate_folder(matcher, references, work / "targets", tmp_path / "ray") == expected


def test_evaluate_predicts_what_the_local_engine_predicts(matcher, tmp_path):
    releases.write_spair(tmp_path, [releases.spair_annotation(f"{n:06d}-one-two:cat") for n in range(4)])
    predictor = MatcherPredictor("small", matcher)
    reports = []
    for name, predict in (("local", {}), ("ray", {"predict": predict_with(RayEngine(workers=2))})):
        request = Request(dataset="spair", split="test", root=tmp_path, output=tmp_path / name)
        reports.append({**evaluate(predictor, request, **predict), "seconds_per_pair": None})
    assert reports[0] == reports[1]


def test_features_are_those_of_the_matcher(matcher, work, tmp_path):
    done = extract_features(RayEngine(workers=2), matcher, read_source(work / "targets"), tmp_path, overwrite=False)
    assert (done.pictures, done.unreadable) == (8, 1)
    rows = pyarrow.parquet.read_table(tmp_path / "parts").to_pylist()
    assert len({row["image"] for row in rows}) == 8
    for row in rows:
        if row["error"]:
            assert row["image"] == "broken.jpg"
            continue
        expected = matcher.describe(work / "targets" / row["image"])[0].numpy()
        np.testing.assert_allclose(np.reshape(row["features"], row["shape"]), expected, rtol=1e-5, atol=1e-6)


class Dying:
    """Work whose process is killed in the middle of a part, once."""

    suffix = ".jsonl"

    def __init__(self, folder: Path) -> None:
        self.marker = folder / "died"

    def write(self, items, path: Path) -> None:
        if items[0]["image"] == "3" and not self.marker.exists():
            self.marker.touch()
            path.write_text('{"image": "to')
            os.kill(os.getpid(), signal.SIGKILL)
        write_lines(path, iter(items))


class Full:
    """Work that finds no room for one of its parts."""

    suffix = ".jsonl"

    def write(self, items, path: Path) -> None:
        if items[0]["image"] == "3":
            raise OSError(28, "No space left on device")
        write_lines(path, iter(items))


def parts(folder):
    items = [{"image": str(number)} for number in range(8)]
    return plan(folder, ".jsonl", {}, items, [item["image"] for item in items], overwrite=False)


def test_a_worker_killed_in_the_middle_does_not_stop_the_run(tmp_path):
    run_missing(RayEngine(workers=2), Dying(tmp_path), parts(tmp_path), "items")
    assert (tmp_path / "died").exists()
    assert [line["image"] for line in read_lines(parts(tmp_path))] == [str(number) for number in range(8)]


def test_a_full_disk_of_a_worker_is_said_in_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*part-000003\.jsonl: No space left on device$"):
        run_missing(RayEngine(workers=2), Full(), parts(tmp_path), "items")
    written = list((tmp_path / "parts").glob("part-*.jsonl"))
    assert all(json.loads(path.read_text())["image"] != "3" for path in written)
