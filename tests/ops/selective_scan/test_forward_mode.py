"""Forward-mode derivatives, and a machine where Numba must not compile: never a silent zero, never a traceback."""

import os
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

from mambamatcher.errors import BackendError
from mambamatcher.model import presets
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.ops import selective_scan
from mambamatcher.ops.ordering import stable_argsort

NAMES = ("u", "delta", "A", "B", "C", "D", "z", "delta_bias")


def scan_inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 3, 70), (2, 3, 70), (3, 4), (2, 4, 70), (2, 4, 70), (3,), (2, 3, 70), (3,)]
    inputs = {name: torch.randn(shape, generator=generator) for name, shape in zip(NAMES, shapes, strict=True)}
    return inputs | {"A": -inputs["A"].abs()}


@pytest.mark.parametrize("backend", ["auto", "chunked", "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_agrees_with_finite_differences(name, backend):
    inputs = {key: value.double() for key, value in scan_inputs().items()} if backend != "auto" else scan_inputs()
    direction = torch.randn(inputs[name].shape, generator=torch.Generator().manual_seed(1)).to(inputs[name])

    def scan(value: torch.Tensor, chosen: str = backend) -> torch.Tensor:
        return selective_scan(**(inputs | {name: value}), delta_softplus=True, backend=chosen)

    _, found = torch.func.jvp(scan, (inputs[name],), (direction,))
    inputs = {key: value.double() for key, value in inputs.items()}  # single precision is too coarse for differences
    step = 1e-5 * direction.double()
    ahead, behind = (scan(inputs[name] + sign * step, "reference") for sign in (1, -1))
    assert_close(found.double(), (ahead - behind) / 2e-5, rtol=1e-3, atol=1e-4)


def test_a_kernel_asked_for_by_name_says_that_it_has_no_forward_mode():
    inputs = scan_inputs()

    def scan(u: torch.Tensor) -> torch.Tensor:
        return selective_scan(**(inputs | {"u": u}), backend="cpu")

    with pytest.raises(BackendError, match="'cpu' has no forward-mode derivative"):
        torch.func.jvp(scan, (inputs["u"],), (torch.ones_like(inputs["u"]),))


@pytest.mark.parametrize("grad", [True, False])
def test_the_derivative_of_a_whole_model_is_the_same_forwards_and_backwards(grad):
    torch.manual_seed(0)
    model = MambaMatcher(presets.tiny()).eval()
    source, target = (torch.randn(1, 4, 48, 3, 3) for _ in range(2))
    direction = torch.randn_like(source)
    with torch.set_grad_enabled(grad):
        refined, tangent = torch.func.jvp(lambda x: model.correlate(x, target), (source,), (direction,))
    source.requires_grad_()
    weights = torch.randn_like(refined)
    (gradient,) = torch.autograd.grad((model.correlate(source, target) * weights).sum(), source)
    assert_close((tangent * weights).sum(), (gradient * direction).sum(), rtol=1e-3, atol=1e-4)


def test_without_numbas_compiler_a_model_computes_the_same():
    code = """
import torch
from mambamatcher import MambaMatcher, presets
from mambamatcher.ops import selective_scan
from mambamatcher.ops.ordering import stable_argsort
torch.manual_seed(0)
model = MambaMatcher(presets.tiny()).eval()
with torch.inference_mode():
    print(model.correlate(*torch.randn(2, 1, 4, 48, 3, 3)).flatten()[:5].tolist())
print(stable_argsort(torch.tensor([0.2, 0.9, 0.2])).tolist())
one = torch.ones(1, 1, 3)
try:
    selective_scan(one, one, one[0, :, :1], one[0, :, :1], one[0, :, :1], backend="cpu")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    values, order, refusal = done.stdout.splitlines()
    torch.manual_seed(0)
    model = MambaMatcher(presets.tiny()).eval()
    with torch.inference_mode():
        expected = model.correlate(*torch.randn(2, 1, 4, 48, 3, 3)).flatten()[:5]
    assert_close(torch.tensor(eval(values)), expected, rtol=1e-3, atol=1e-4)
    assert eval(order) == stable_argsort(torch.tensor([0.2, 0.9, 0.2])).tolist()
    assert refusal == "BackendError scan backend 'cpu' needs Numba's compiler; unset NUMBA_DISABLE_JIT, or use 'auto'"
