"""A matcher computes where it is told to, with the numbers of the CPU."""

import json
import subprocess
import sys

import numpy as np
import pytest

from mambamatcher import Matcher
from mambamatcher.errors import InputError
from tests.pretend_device import MODELS, NAME
from tests.tools.conftest import picture


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device")
    picture(seed=1).save(folder / "source.png")
    picture(seed=2).save(folder / "target.png")
    command = [sys.executable, "-W", "ignore", "-m", "tests.pretend_device", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("model", MODELS)
def test_another_device_gives_what_the_cpu_gives(found, model):
    on_cpu, *on_device = found[model]
    assert on_cpu.pop("device") == "cpu"
    for each in on_device:
        assert each.pop("device") == NAME
        for name, expected in on_cpu.items():
            np.testing.assert_allclose(each[name], expected, rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize(
    ("device", "said"), [("graphics", "graphics"), ("meta", "meta"), ("mps:7", "MPS"), ("cuda:99", "CUDA|cuda|driver")]
)
def test_a_device_that_cannot_compute_is_one_sentence(device, said):
    with pytest.raises(InputError, match=f"^cannot compute on the device '{device}': [^\n]*({said})"):
        Matcher.from_preset("nearest", device=device)
