"""The Ray engine on a small cluster of this machine, started once."""

import os
import signal
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="the scale extra is not installed")
pytest.importorskip("pyarrow", reason="the scale extra is not installed")
from mambamatcher.apps.propagate import RESULTS  # noqa: E402
from mambamatcher.apps.propagate import propagate as propagate_folder  # noqa: E402
from mambamatcher.errors import InputError  # noqa: E402
from mambamatcher.evaluation.predictors import MatcherPredictor  # noqa: E402
from mambamatcher.evaluation.run import Request, evaluate  # noqa: E402
from mambamatcher.scale.engine import LocalEngine, RayEngine, run_missing  # noqa: E402
from mambamatcher.scale.parts import plan, read_lines, write_lines  # noqa: E402
from mambamatcher.scale.run import predict_with, propagate  # noqa: E402
from mambamatcher.scale.sources import read_source  # noqa: E402
from tests.data import releases  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def _cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    own = {"num_cpus": 2, "object_store_memory": 100 << 20, "include_dashboard": False}
    ray.init(address="local", log_to_driver=False, **own)
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
    for name, predict in (("local", {}), ("ray", {"predict": predict_with(RayEngine(workers=1))})):
        request = Request(dataset="spair", split="test", root=tmp_path, output=tmp_path / name)
        reports.append({**evaluate(predictor, request, **predict), "seconds_per_pair": None})
    assert reports[0] == reports[1]


class Unlucky:
    """Work whose process is killed in the middle of a part, once, and that finds no room for a later one, once."""

    suffix = ".jsonl"

    def __init__(self, folder: Path) -> None:
        self.killed, self.full = folder / "killed", folder / "full"

    def write(self, items, path: Path) -> None:
        if items[0]["image"] == "3" and not self.killed.exists():
            self.killed.touch()
            path.write_text('{"image": "to')
            os.kill(os.getpid(), signal.SIGKILL)
        if items[0]["image"] == "5" and not self.full.exists():
            self.full.touch()
            raise OSError(28, "No space left on device")
        write_lines(path, iter(items))


def test_a_killed_worker_does_not_stop_the_run_and_a_full_disk_does_with_one_sentence(tmp_path):
    def parts():
        items = [{"image": str(number)} for number in range(8)]
        return plan(tmp_path, ".jsonl", {}, items, [item["image"] for item in items], overwrite=False)

    with pytest.raises(InputError, match=r"cannot write .*part-000005\.jsonl: No space left on device$"):
        run_missing(RayEngine(workers=1), Unlucky(tmp_path), parts(), "items")
    assert (tmp_path / "killed").exists()
    whole = {part.path.name: part.items for part in parts() if part.path.exists()}
    assert {"part-000003.jsonl", "part-000004.jsonl"} <= whole.keys()
    assert "part-000005.jsonl" not in whole
    run_missing(LocalEngine(), Unlucky(tmp_path), parts(), "items")  # on any engine
    assert [line["image"] for line in read_lines(parts())] == [str(number) for number in range(8)]
