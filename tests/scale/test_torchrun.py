"""Two processes started by torchrun, as on several machines, train one model."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("lightning", reason="the train extra is not installed")
from tests.training.conftest import command, finish, photos  # noqa: F401

RECIPE = ("steps=2", "round_steps=2", "effective_batch=4", "augment=false")


def test_two_processes_of_torchrun_end_with_the_weights_of_one(photos, tmp_path):  # noqa: F811
    finish(command(photos, tmp_path / "one", *RECIPE, "batch_size=4"))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ("--devices", "2", "--accelerator", "cpu", "batch_size=2")
    # after torchrun come the module and its own words, without the interpreter
    done = subprocess.run(
        [*launcher, *command(photos, tmp_path / "two", *options, *RECIPE)[1:]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("one", "two"))
    assert one.keys() == two.keys()
    for key in one:
        torch.testing.assert_close(two[key], one[key], rtol=1e-4, atol=2e-5, msg=key)
