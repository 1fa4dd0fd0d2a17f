import csv
import os
import random
import signal
import subprocess
import time

import pytest
import torch
from safetensors.torch import load_file

from tests.faults.runs import SEEDS
from tests.training.conftest import command, finish

RECIPE = (
    "steps=12",
    "round_steps=1",
    "effective_batch=4",
    "batch_size=2",
    "averaging=0.5",
    "schedule=cosine",
    "cross_entropy_weight=0.1",
)


def weights(run):
    return load_file(run / "model" / "model.safetensors"), torch.load(run / "last.ckpt", weights_only=True)


def written(path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_killed_at_arbitrary_points_ends_with_the_same_weights_bit_for_bit(photos, tmp_path, seed):
    finish(command(photos, tmp_path / "whole", *RECIPE))
    killed, points = 0, random.Random(seed)
    run, resume = tmp_path / "killed", []
    for kill in range(4):
        # the first when the run has only begun, the others as soon as each has come a step further
        sign, longest = (run / "recipe.json", 2.0) if kill == 0 else (run / "last.ckpt", 0.6)
        process = subprocess.Popen(
            command(photos, run, *resume, *RECIPE), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        seen = written(sign)
        while process.poll() is None and written(sign) == seen:
            time.sleep(0.01)
        time.sleep(points.uniform(0, longest))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        resume = ["--resume"]
    assert killed >= 3  # a quick machine may be done before the last one
    finish(command(photos, run, "--resume", *RECIPE))
    (best, last), (best_killed, last_killed) = weights(tmp_path / "whole"), weights(run)
    assert best.keys() == best_killed.keys()
    assert all(torch.equal(best[key], best_killed[key]) for key in best)
    for part in ("state_dict", "current_model_state"):
        assert all(torch.equal(last[part][key], last_killed[part][key]) for key in last[part])
    assert last["global_step"] == last_killed["global_step"] == 12


def validation(run) -> list[float]:
    rows = [row for path in sorted(run.glob("csv/*/metrics.csv")) for row in csv.DictReader(path.open())]
    return [float(row["validation_pck"]) for row in rows if row.get("validation_pck")]


def test_two_processes_take_the_steps_of_one_and_measure_the_same(photos, tmp_path):
    """With a cache of features that both use; without one, tests/jobs/test_torchrun.py compares the weights."""
    recipe = ("steps=2", "round_steps=2", "effective_batch=4", "augment=false", "cache_gigabytes=1")
    finish(command(photos, tmp_path / "one", *recipe, "batch_size=4"))
    two = ("--devices", "2", "--accelerator", "cpu", "batch_size=2")
    finish(command(photos, tmp_path / "two", *two, *recipe))
    (one, _), (both, _) = weights(tmp_path / "one"), weights(tmp_path / "two")
    # a step is about 1e-3; Adam divides each gradient by its own size, and so magnifies the rounding of small ones
    for key in one:
        torch.testing.assert_close(both[key], one[key], rtol=1e-4, atol=2e-4, msg=key)
    assert validation(tmp_path / "two") == pytest.approx(validation(tmp_path / "one"))
