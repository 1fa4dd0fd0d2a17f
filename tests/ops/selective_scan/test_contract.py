"""All backends compute the same scan: outputs, last state and gradients are compared with a float64 loop."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mambamatcher.errors import BackendError, ConfigError, InputError
from mambamatcher.ops.selective_scan import BACKENDS, selective_scan

from . import oracle
from .oracle import CASES, Case

HERE = ("reference", "chunked", "cpu")  # triton has its own test file, mamba_ssm needs a GPU


def differentiate(inputs: dict[str, Tensor | None], backend: str, case: Case) -> dict[str, Tensor]:
    def run(leaves: dict) -> tuple[Tensor, Tensor]:
        return selective_scan(**leaves, **case.arguments(), return_last_state=True, backend=backend)

    return oracle.differentiate(inputs, run)


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend_agrees_with_the_loop(backend, case):
    oracle.assert_same(differentiate(case.make(), backend, case), oracle.expected(case))


@pytest.mark.parametrize("backend", HERE)
def test_any_memory_order_gives_the_same(backend):
    case = Case(B="two groups", C="two groups")
    inputs = case.make()
    for name, tensor in inputs.items():
        if name in ("u", "z"):  # channels innermost, as a linear layer leaves them
            inputs[name] = tensor.transpose(1, 2).contiguous().transpose(1, 2)
        elif tensor.ndim > 1:  # every second entry of a larger tensor
            inputs[name] = torch.stack([tensor, torch.full_like(tensor, torch.nan)], dim=-1)[..., 0]
    oracle.assert_same(differentiate(inputs, backend, case), oracle.expected(case))


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(backend, dtype):
    case = replace(Case(), length=70)
    halves = {name: tensor.to(dtype) for name, tensor in case.make().items()}
    rounded = {name: tensor.double() for name, tensor in halves.items()}
    wanted = oracle.differentiate(rounded, lambda leaves: oracle.scan(leaves, **case.arguments()))
    found = differentiate(halves, backend, case)
    assert found["output"].dtype == dtype
    assert found["last state"].dtype == torch.float32
    oracle.assert_same(found, wanted, tolerance=torch.finfo(dtype).eps)


@pytest.mark.parametrize("backend", ["auto", "reference", "chunked"])
def test_float64_is_computed_in_float64(backend):
    case = replace(Case(), length=20)
    doubles = {name: tensor.double() for name, tensor in case.make().items()}
    oracle.assert_same(differentiate(doubles, backend, case), oracle.expected(case), tolerance=1e-12)


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("poisoned", ["u", "delta", "B", "C", "z"])
def test_nan_spreads_forwards_and_never_backwards(backend, poisoned):
    step = 70
    inputs = Case().make()
    clean = selective_scan(**inputs, delta_softplus=True, backend=backend)
    inputs[poisoned][..., step] = torch.nan
    y = selective_scan(**inputs, delta_softplus=True, backend=backend)
    assert torch.equal(y[..., :step], clean[..., :step])
    assert y[..., step].isnan().all()
    keeps = poisoned not in ("C", "z")  # these do not enter the state
    assert y[..., step + 1 :].isnan().all() == keeps


@pytest.mark.parametrize("backend", HERE)
def test_nan_in_one_channel_leaves_the_others_alone(backend):
    inputs = Case().make()
    clean = selective_scan(**inputs, backend=backend, delta_softplus=True)
    inputs["A"][3, 1] = torch.nan
    y = selective_scan(**inputs, backend=backend, delta_softplus=True)
    others = torch.arange(12) != 3
    assert y[:, 3].isnan().all()
    assert torch.equal(y[:, others], clean[:, others])


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("discretization", ["euler", "zoh"])
def test_extreme_decays_stay_finite(backend, discretization):
    """Modes that decay at once, modes that never decay, and A = 0, where the zero-order hold divides zero by zero."""
    case = replace(Case(), discretization=discretization)
    inputs = case.make()
    inputs["A"][:, 0], inputs["A"][:, 1], inputs["A"][:, 2] = -1e6, -1e-9, 0
    found = differentiate(inputs, backend, case)
    assert all(tensor.isfinite().all() for tensor in found.values())


def test_slow_modes_do_not_drift_over_a_long_sequence():
    """An error of the exponential accumulates over the 1 / (1 - decay) steps that a state lasts.

    A plain float32 loop reaches 9e-6, PyTorch with AVX-512 2.9e-5.
    """
    case = Case(batch=1, dim=8, length=20_000, state=4, options=False, softplus=False)
    inputs = case.make()
    inputs["A"] = -torch.logspace(-5, 0, 4).repeat(8, 1)
    wanted, _ = oracle.scan({name: t if t is None else t.double() for name, t in inputs.items()}, False, "euler")
    for backend in ("chunked", "cpu"):
        found = selective_scan(**inputs, backend=backend)
        assert (found - wanted).abs().max() / wanted.abs().max() < 5e-5


@pytest.mark.parametrize("backend", HERE)
def test_the_last_state_alone_can_be_differentiated(backend):
    inputs = Case().make()
    inputs["u"].requires_grad_()
    _, last_state = selective_scan(**inputs, delta_softplus=True, return_last_state=True, backend=backend)
    last_state.sum().backward()
    assert inputs["u"].grad.abs().max() > 0


def test_registered_operator_keeps_its_promises():
    from mambamatcher.ops.selective_scan.cpu import scan_cpu

    inputs = replace(Case(), length=10).make()
    leaves = {name: tensor.requires_grad_() for name, tensor in inputs.items()}
    u, delta, A, B, C, D, z, bias = leaves.values()
    arguments = (u, delta, A, B[:, None], C[:, None], None, D, z, bias, True, False)
    torch.library.opcheck(
        scan_cpu, arguments, test_utils=("test_schema", "test_faketensor", "test_autograd_registration")
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": torch.zeros(2, 12)}, "u must be"),
        ({"u": torch.zeros(2, 12, 0), "delta": torch.zeros(2, 12, 0)}, "empty"),
        ({"delta": torch.zeros(2, 12, 149)}, r"delta must be \(2, 12, 150\)"),
        ({"A": torch.zeros(11, 5)}, "A must be"),
        ({"A": torch.zeros(12, 5, dtype=torch.complex64)}, "complex"),
        ({"B": torch.zeros(2, 4, 150)}, "B must be"),
        ({"C": torch.zeros(2, 5, 5, 150)}, "C must be"),
        ({"D": torch.zeros(11)}, "D must be"),
        ({"z": torch.zeros(2, 12, 1)}, "z must be"),
        ({"delta_bias": torch.zeros(1)}, "delta_bias must be"),
        ({"u": torch.zeros(2, 12, 150, dtype=torch.int32)}, "floating-point"),
        ({"B": torch.zeros(2, 5, 150, device="meta")}, "on meta but u is on cpu"),
    ],
)
def test_bad_input_names_the_argument(change, message):
    with pytest.raises(InputError, match=message):
        selective_scan(**(Case().make() | change))


def test_unknown_names_are_answered_with_the_known_ones():
    inputs = Case().make()
    with pytest.raises(ConfigError, match="Did you mean 'chunked'"):
        selective_scan(**inputs, backend="chunkd")
    with pytest.raises(ConfigError, match="Known: euler, zoh"):
        selective_scan(**inputs, discretization="tustin")


@pytest.mark.parametrize("backend", ["triton", "mamba_ssm"])
def test_a_named_backend_that_is_missing_raises(backend):
    with pytest.raises(BackendError, match=f"{backend}.*(installed|GPU)"):
        selective_scan(**Case().make(), backend=backend)


def test_float64_on_a_float32_kernel_raises():
    inputs = {name: tensor.double() for name, tensor in Case().make().items()}
    with pytest.raises(BackendError, match="float32"):
        selective_scan(**inputs, backend="cpu")


def test_every_backend_is_tested_somewhere():
    assert set(BACKENDS) == {*HERE, "triton", "mamba_ssm"}


def test_auto_says_once_what_it_took(caplog):
    from mambamatcher.ops.selective_scan import backends

    backends._automatic.cache_clear()
    with caplog.at_level("INFO", logger=backends.__name__):
        for _ in range(3):
            selective_scan(**Case().make(), delta_softplus=True)
    assert [record.getMessage() for record in caplog.records] == [
        "selective scan on cpu (torch.float32): backend 'cpu'"
    ]
