"""Two processes started by torchrun, as on several machines, train one model."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

pytest.importorskip("lightning", reason="the train extra is not installed")
from mambamatcher.cli import app
from tests.training.conftest import command, photos  # noqa: F401

RECIPE = ("steps=1", "round_steps=1", "effective_batch=4", "augment=false", "--accelerator", "cpu")


def words(root, out, *extra):
    """What follows the interpreter; two pairs are validated."""
    return command(root, out, *RECIPE, *extra, "--validation-pairs", "2")[1:]


def test_two_processes_of_torchrun_end_with_the_weights_of_one(photos, tmp_path):  # noqa: F811
    alone = words(photos, tmp_path / "one", "batch_size=4")
    assert alone[:2] == ["-m", "mambamatcher"]
    assert CliRunner().invoke(app, alone[2:]).exit_code == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    together = [*launcher, *words(photos, tmp_path / "two", "--devices", "2", "batch_size=2")]
    done = subprocess.run(together, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("one", "two"))
    assert one.keys() == two.keys()
    far = torch.cat([~torch.isclose(two[key], one[key], rtol=1e-4, atol=2e-5).flatten() for key in one])
    # Adam's first step is the sign of each gradient; where that is nearly zero, rounding decides. With half of the
    # pairs, which is what a process has before gradients are exchanged, two in a hundred of all weights differ.
    assert far.double().mean() < 1e-4
