"""Properties of the scan that hold for all sizes."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mambamatcher.ops import selective_scan

from . import oracle
from .oracle import NAMES, Case

sizes = st.integers(1, 20)
lengths = st.integers(1, 200)
cases = st.builds(
    Case,
    batch=st.integers(1, 3),
    dim=st.integers(1, 4).map(lambda k: 6 * k),
    length=lengths,
    state=sizes,
    B=st.sampled_from(["constant", "shared", "two groups", "three groups"]),
    C=st.sampled_from(["constant", "shared", "two groups", "three groups"]),
    options=st.booleans(),
    softplus=st.booleans(),
    discretization=st.sampled_from(["euler", "zoh"]),
)
few = settings(max_examples=20, deadline=None)


def run(case: Case, inputs: dict, backend: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    return selective_scan(**inputs, **case.arguments(), return_last_state=True, backend=backend)


@few
@given(case=cases)
def test_the_kernel_agrees_with_the_loop_at_any_size(case):
    inputs = case.make()
    doubles = {name: tensor if tensor is None else tensor.double() for name, tensor in inputs.items()}
    wanted = oracle.differentiate(doubles, lambda leaves: oracle.scan(leaves, **case.arguments()))
    oracle.assert_same(oracle.differentiate(inputs, lambda leaves: run(case, leaves)), wanted)


@few
@given(case=cases, cut=lengths)
def test_the_future_does_not_change_the_past(case, cut):
    inputs = case.make()
    whole, _ = run(case, inputs)
    before = {
        name: tensor if tensor is None or tensor.ndim < 3 else tensor[..., :cut] for name, tensor in inputs.items()
    }
    start, _ = run(case, before)
    assert torch.equal(start, whole[..., :cut])


@few
@given(case=cases, factor=st.sampled_from([-4.0, 0.5, 2.0]))
def test_output_is_linear_in_u(case, factor):
    inputs = case.make()
    y, state = run(case, inputs)
    scaled, scaled_state = run(case, inputs | {"u": factor * inputs["u"]})
    assert torch.equal(scaled, factor * y)  # powers of two scale exactly
    assert torch.equal(scaled_state, factor * state)


@few
@given(case=cases)
def test_sequences_of_a_batch_do_not_touch_each_other(case):
    inputs = case.make()
    whole, _ = run(case, inputs)
    for index in range(case.batch):
        one = {
            name: tensor[index : index + 1] if tensor is not None and tensor.ndim > 2 else tensor
            for name, tensor in ((name, inputs[name]) for name in NAMES)
        }
        alone, _ = run(case, one)
        assert torch.equal(alone, whole[index : index + 1])
