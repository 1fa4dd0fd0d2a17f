"""The Ray engine on a small cluster of this machine, started once."""

import json
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
from mambamatcher.jobs.engines import LOCAL  # noqa: E402
from mambamatcher.jobs.job import run  # noqa: E402
from mambamatcher.jobs.ray_engine import RayEngine  # noqa: E402
from mambamatcher.jobs.source import read_source  # noqa: E402
from mambamatcher.tools.corrections import Correction, Corrections, Status, annotated, write_corrections  # noqa: E402
from mambamatcher.tools.features import extract_features  # noqa: E402
from mambamatcher.tools.outputs import FORMATS, RESULTS  # noqa: E402
from mambamatcher.tools.propagate import propagate  # noqa: E402
from tests.datasets import releases  # noqa: E402
from tests.jobs.test_job import squaring  # noqa: E402


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


def test_propagate_writes_the_bytes_of_the_local_engine_and_resumes_with_other_workers(
    matcher, references, work, tmp_path
):
    source = read_source(work / "targets")
    expected = propagate(matcher, references, source, tmp_path / "local")
    assert propagate(matcher, references, source, tmp_path / "ray", RayEngine(workers=2)) == expected
    results = tmp_path / "ray" / RESULTS
    results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[:4]))
    for name in ("written.json", *FORMATS):  # as a kill would have left it
        (tmp_path / "ray" / name).unlink()
    assert propagate(matcher, references, source, tmp_path / "ray", RayEngine(workers=1)) == expected
    for name in ("points.jsonl", "points.csv", "points.coco.json", "review.html"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    # complete for the local engine too
    assert propagate(matcher, references, source, tmp_path / "ray") == expected


def test_a_round_of_corrections_is_that_of_the_local_engine(matcher, references, work, tmp_path):
    source = read_source(work / "targets")
    made_for = tuple(annotated(each.loaded.image, each.points) for each in references)
    corrected = {"2.png": Correction(Status.corrected, {"nose": (12.0, 34.5), "tail": None, "paw": (3.0, 4.0)})}
    for name, engine in (("local", LOCAL), ("ray", RayEngine(workers=2))):
        propagate(matcher, references, source, tmp_path / name, engine)
        write_corrections(tmp_path / name / "corrections.json", Corrections(made_for, corrected))
    expected = propagate(matcher, references, source, tmp_path / "local")
    assert expected.kept == 1
    assert propagate(matcher, references, source, tmp_path / "ray", RayEngine(workers=2)) == expected
    for name in (RESULTS, "previous.jsonl", "points.csv", "points.coco.json", "corrections.json"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_very_many_targets_are_written_in_the_shards_of_the_local_engine(
    matcher, references, work, tmp_path, monkeypatch
):
    source = read_source(work / "targets")
    monkeypatch.setattr("mambamatcher.tools.propagate.GATHERED", 1)
    expected = propagate(matcher, references, source, tmp_path / "local")
    assert propagate(matcher, references, source, tmp_path / "ray", RayEngine(workers=2)) == expected
    here, there = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "parts").iterdir()} for name in ("local", "ray")
    )
    assert here == there


def test_evaluate_predicts_what_the_local_engine_predicts(matcher, tmp_path):
    releases.write_spair(tmp_path, [releases.spair_annotation(f"{n:06d}-one-two:cat") for n in range(4)])
    predictor = MatcherPredictor("small", matcher)
    reports = []
    for name, engine in (("local", LOCAL), ("ray", RayEngine(workers=2))):
        request = Request(dataset="spair", split="test", root=tmp_path, output=tmp_path / name)
        reports.append({**evaluate(predictor, request, engine), "seconds_per_pair": None})
    assert reports[0] == reports[1]


def test_features_are_those_of_the_local_engine_whatever_folder_the_workers_run_in(
    matcher, work, tmp_path, monkeypatch
):
    source = read_source(work / "targets")
    extract_features(matcher, source, tmp_path / "local")
    monkeypatch.chdir(tmp_path)  # the workers stay where the cluster was started
    done = extract_features(matcher, source, Path("ray"), RayEngine(workers=2))
    assert (done.images, done.unreadable) == (8, 1)
    there, here = (pq.read_table(tmp_path / name / "parts").to_pydict() for name in ("ray", "local"))
    for theirs, ours in zip(there.pop("features"), here.pop("features"), strict=True):
        np.testing.assert_allclose(theirs or [], ours or [], rtol=1e-4, atol=1e-6)  # one thread against several
    assert there == here


def test_the_command_line_runs_on_ray(work, tmp_path):
    command = ["features", str(work / "targets"), "--out", str(tmp_path), "--model", "tiny", "--engine", "ray"]
    done = CliRunner().invoke(app, [*command, "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "8 images, 1 of them unreadable" in done.output


def test_a_cluster_that_runs_is_joined_with_its_token_and_the_token_is_named_where_it_lacks(work, tmp_path):
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "mambamatcher", "features", work / "targets", "--model", "tiny"]
    command += ["--engine", "ray", "--address", address, "--workers", "1", "--out"]
    assert os.environ["RAY_AUTH_MODE"] == "token"  # Ray has set it where it made the token
    done = subprocess.run([*command, tmp_path / "joined"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "8 images, 1 of them unreadable" in done.stdout
    without = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    without["RAY_NUM_REDIS_GET_RETRIES"] = "1"  # it would ask twenty times
    done = subprocess.run([*command, tmp_path / "refused"], capture_output=True, text=True, env=without)
    assert done.returncode == 2
    *_, said = done.stderr.splitlines()
    assert said.startswith(f"mambamatcher: cannot use the Ray cluster at {address}: Failed to connect")
    assert said.endswith("; if it has a token, set RAY_AUTH_MODE=token")


def report_worker(inputs):
    """Say which GPU Ray gave to this process, which process it is, and how it was started."""
    for each in inputs:
        time.sleep(0.5)  # so that one worker alone cannot take every shard
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
        yield {"number": each.name, "gpu": gpu, "process": os.getpid(), "arenas": os.environ.get("MALLOC_ARENA_MAX")}


def test_with_a_device_workers_share_the_gpus_there_are(tmp_path):
    job = squaring(tmp_path, 8, work=report_worker, finish=list)
    reported = run(job, RayEngine(workers=2, device="cuda"))
    assert {each["gpu"] for each in reported} == {"0"}
    assert len({each["process"] for each in reported}) == 2
    assert {each["arenas"] for each in reported} == {"1"}


def test_more_workers_than_the_cluster_has_room_for_do_not_hold_up_the_run(tmp_path):
    reported = run(squaring(tmp_path, 6, work=report_worker, finish=list), RayEngine(workers=5))
    assert [each["number"] for each in reported] == [str(number) for number in range(6)]
    assert len({each["process"] for each in reported}) <= 2


def test_a_worker_that_cannot_compute_on_its_device_ends_the_run_in_one_sentence(matcher, references, work, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("the pretended GPU is there")
    with pytest.raises(InputError, match=r"^cannot compute on the device 'cuda': [^\n]+$"):
        propagate(matcher, references, read_source(work / "targets"), tmp_path, RayEngine(device="cuda"))


class Unlucky:
    """Work whose process is killed in the middle, once, and that finds no room later, once."""

    def __init__(self, folder: Path) -> None:
        self.killed, self.full = folder / "killed", folder / "full"

    def __call__(self, inputs):
        for each in inputs:
            if each.name == "3" and not self.killed.exists():
                self.killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if each.name == "5" and not self.full.exists():
                self.full.touch()
                raise InputError("cannot write 5: No space left on device")
            yield {"number": each.name, "square": int(each.name) ** 2}


def test_a_killed_worker_does_not_stop_the_run_and_bad_input_does_with_one_sentence(tmp_path):
    job = squaring(tmp_path, 8, work=Unlucky(tmp_path))
    with pytest.raises(InputError, match=r"^cannot write 5: No space left on device$"):
        run(job, RayEngine(workers=1))
    assert (tmp_path / "killed").exists()
    _, *lines = job.journal.read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == ["0", "1", "2", "3", "4"]
    assert run(job, LOCAL) == [number**2 for number in range(8)]  # on any engine


def test_what_was_done_of_a_shard_before_bad_input_is_kept(tmp_path, monkeypatch):
    (tmp_path / "killed").touch()
    monkeypatch.setattr("mambamatcher.jobs.job.FEWEST_SHARDS", 1)
    job = squaring(tmp_path, 8, work=Unlucky(tmp_path))
    with pytest.raises(InputError, match="No space left"):
        run(job, RayEngine(workers=1))
    assert len(job.journal.read_text().splitlines()) == 1 + 5


def kill_worker(inputs):
    """Kill the process at one input, however often it is tried."""
    for each in inputs:
        if each.name == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"number": each.name, "square": 0}


def test_a_shard_that_kills_every_worker_ends_the_run_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("mambamatcher.jobs.job.FEWEST_SHARDS", 3)
    with pytest.raises(InputError, match=r"^one of the inputs 0 to 1 killed its worker 3 times"):
        run(squaring(tmp_path, 6, work=kill_worker), RayEngine(workers=1))


def fail(inputs):
    """Work with a fault of its own."""
    yield {"number": inputs[0].name, "square": 0}
    raise RuntimeError("no such\nlevel")


def test_a_fault_in_a_worker_is_one_sentence_that_names_the_input(tmp_path, monkeypatch):
    monkeypatch.setattr("mambamatcher.jobs.job.FEWEST_SHARDS", 1)
    with pytest.raises(InputError, match=r"^1: RuntimeError: no such level$"):
        run(squaring(tmp_path, 3, work=fail), RayEngine(workers=1))


class Stillborn:
    """Work that kills each process it is sent to."""

    __call__ = staticmethod(fail)

    def __getstate__(self):
        return {"sent": True}

    def __setstate__(self, state):
        os.kill(os.getpid(), signal.SIGKILL)


def test_where_no_worker_can_be_made_ray_gives_up_in_one_sentence(tmp_path):
    with pytest.raises(BackendError, match=r"^Ray gave up: [^\n]+$"):
        run(squaring(tmp_path, 1, work=Stillborn()), RayEngine(workers=1))


def wait(inputs):
    time.sleep(3600)
    yield from inputs


def test_where_no_worker_replies_ray_gives_up_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("mambamatcher.jobs.ray_engine.PATIENCE", 8.0)
    with pytest.raises(BackendError, match=r"^Ray gave up: no worker has replied for [^\n]+$"):
        run(squaring(tmp_path, 1, work=wait), RayEngine(workers=1))
