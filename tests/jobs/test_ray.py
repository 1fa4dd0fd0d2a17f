"""The Ray engine on a small cluster of this machine, started once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

ray = pytest.importorskip("ray", reason="the scale extra is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="the scale extra is not installed")
from mambamatcher.cli import app  # noqa: E402
from mambamatcher.errors import BackendError, InputError  # noqa: E402
from mambamatcher.evaluation.evaluate import Request, evaluate  # noqa: E402
from mambamatcher.evaluation.predictors import MatcherPredictor  # noqa: E402
from mambamatcher.jobs.engines import LocalEngine, RayEngine, run_missing  # noqa: E402
from mambamatcher.jobs.shards import plan, read_lines, write_lines  # noqa: E402
from mambamatcher.jobs.source import read_source  # noqa: E402
from mambamatcher.tools.propagate import RESULTS  # noqa: E402
from mambamatcher.tools.propagate import propagate as propagate_folder  # noqa: E402
from mambamatcher.tools.sharded import extract_features, predict_with, propagate  # noqa: E402
from tests.datasets import releases  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def _cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop("MALLOC_ARENA_MAX", None)  # nobody has set it where a cluster is only joined
    own = {
        "num_cpus": 2,
        "num_gpus": 1,
        "object_store_memory": 100 << 20,
        "include_dashboard": False,
    }  # a pretended GPU
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
    for name, predict in (("local", {}), ("ray", {"predict": predict_with(RayEngine(workers=2))})):
        request = Request(dataset="spair", split="test", root=tmp_path, output=tmp_path / name)
        reports.append({**evaluate(predictor, request, **predict), "seconds_per_pair": None})
    assert reports[0] == reports[1]


def test_features_are_those_of_the_local_engine_whatever_folder_the_workers_run_in(
    matcher, work, tmp_path, monkeypatch
):
    source = read_source(work / "targets")
    extract_features(LocalEngine(), matcher, source, tmp_path / "local", overwrite=False)
    monkeypatch.chdir(tmp_path)  # the workers stay where the cluster was started
    done = extract_features(RayEngine(workers=2), matcher, source, Path("ray"), overwrite=False)
    assert (done.pictures, done.unreadable) == (8, 1)
    there, here = (pq.read_table(tmp_path / name / "parts").to_pydict() for name in ("ray", "local"))
    for theirs, ours in zip(there.pop("features"), here.pop("features"), strict=True):
        np.testing.assert_allclose(theirs or [], ours or [], rtol=1e-4, atol=1e-6)  # one thread against several
    assert there == here


def test_the_command_line_runs_on_ray(work, tmp_path):
    command = ["features", str(work / "targets"), "--out", str(tmp_path), "--model", "tiny", "--engine", "ray"]
    done = CliRunner().invoke(app, [*command, "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "8 pictures, 1 of them unreadable" in done.output


def test_a_cluster_that_runs_is_joined_with_its_token_and_the_token_is_named_where_it_lacks(work, tmp_path):
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "mambamatcher", "features", work / "targets", "--model", "tiny"]
    command += ["--engine", "ray", "--address", address, "--workers", "1", "--out"]
    assert os.environ["RAY_AUTH_MODE"] == "token"  # Ray has set it where it made the token
    done = subprocess.run([*command, tmp_path / "joined"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "8 pictures, 1 of them unreadable" in done.stdout
    without = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    without["RAY_NUM_REDIS_GET_RETRIES"] = "1"  # it would ask twenty times
    done = subprocess.run([*command, tmp_path / "refused"], capture_output=True, text=True, env=without)
    assert done.returncode == 2
    *_, said = done.stderr.splitlines()
    assert said.startswith(f"mambamatcher: cannot use the Ray cluster at {address}: Failed to connect")
    assert said.endswith("; if it has a token, set RAY_AUTH_MODE=token")


class Telling:
    """Work that writes which GPU Ray gave to its process, which process it was, and how it was started."""

    suffix = ".jsonl"

    def write(self, items, path: Path) -> None:
        time.sleep(0.5)  # so that one worker alone cannot take every part
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
        told = {"gpu": gpu, "process": os.getpid(), "arenas": os.environ.get("MALLOC_ARENA_MAX")}
        write_lines(path, iter([told for _ in items]))


def test_with_a_device_workers_share_the_gpus_there_are(tmp_path):
    items = [{"image": str(number)} for number in range(8)]
    parts = plan(tmp_path, ".jsonl", {}, items, [item["image"] for item in items], overwrite=False)
    run_missing(RayEngine(workers=2, device="cuda"), Telling(), parts, "items")
    told = list(read_lines(parts))
    assert {each["gpu"] for each in told} == {"0"}
    assert len({each["process"] for each in told}) == 2
    assert {each["arenas"] for each in told} == {"1"}


def test_a_worker_that_cannot_compute_on_its_device_ends_the_run_in_one_sentence(matcher, references, work, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("the pretended GPU is there")
    with pytest.raises(InputError, match=r"^cannot compute on the device 'cuda': [^\n]+$"):
        propagate(RayEngine(device="cuda"), matcher, references, read_source(work / "targets"), tmp_path, False)


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


class Deadly:
    """Work that kills its process at one part, however often it is tried."""

    suffix = ".jsonl"

    def write(self, items, path: Path) -> None:
        if items[0]["image"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        write_lines(path, iter(items))


def test_a_part_that_kills_every_worker_ends_the_run_and_is_named(tmp_path):
    items = [{"image": str(number)} for number in range(2)]
    parts = plan(tmp_path, ".jsonl", {}, items, [item["image"] for item in items], overwrite=False)
    with pytest.raises(InputError, match=r"part-000001\.jsonl killed its worker 3 times"):
        run_missing(RayEngine(workers=1), Deadly(), parts, "items")
    assert parts[0].path.exists()


class Raising(Deadly):
    """Work with a fault of its own."""

    def write(self, items, path: Path) -> None:
        raise RuntimeError("no such\nlevel")


def test_a_fault_in_a_worker_is_one_sentence_that_names_it(tmp_path):
    parts = plan(tmp_path, ".jsonl", {}, [{"image": "0"}], ["0"], overwrite=False)
    with pytest.raises(InputError, match=r"^part-000000\.jsonl: RuntimeError: no such level$"):
        run_missing(RayEngine(workers=1), Raising(), parts, "items")


def test_where_no_worker_can_be_made_ray_gives_up_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("mambamatcher.jobs.engines.PATIENCE", 8)
    parts = plan(tmp_path, ".jsonl", {}, [{"image": "0"}], ["0"], overwrite=False)
    with pytest.raises(BackendError, match=r"^Ray gave up: [^\n]+$"):
        run_missing(RayEngine(workers=1), Stillborn(), parts, "items")


class Stillborn(Deadly):
    """Work that kills each process it is sent to."""

    def __getstate__(self):
        return {"sent": True}

    def __setstate__(self, state):
        os.kill(os.getpid(), signal.SIGKILL)
