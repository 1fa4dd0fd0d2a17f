"""The GPU kernels in Triton's interpreter. It must be enabled before Triton is imported, hence the child process."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

PROGRAM = """
import sys; sys.path.insert(0, ".")
from importlib import import_module
from mambamatcher.ops import selective_scan
from tests.ops.selective_scan import oracle

# The interpreter is slow, so sequences are short. Short tiles make several of them.
import_module("mambamatcher.ops.selective_scan.gpu")._STEPS = 4
for B, C, options, softplus, discretization in (
    ("shared", "shared", True, True, "euler"),
    ("shared", "shared", False, False, "euler"),
    ("constant", "two groups", True, True, "zoh"),
    ("three groups", "constant", True, False, "zoh"),
):
    case = oracle.Case(2, 6, 10, 3, B, C, options, softplus, discretization)
    def run(leaves):
        return selective_scan(**leaves, **case.arguments(), return_last_state=True, backend="triton")
    oracle.assert_same(oracle.differentiate(case.make(), run), oracle.expected(case))
inputs = oracle.Case(1, 2, 10, 2).make()
clean = selective_scan(**inputs, delta_softplus=True, backend="triton")
inputs["delta"][..., 5] = float("nan")
y = selective_scan(**inputs, delta_softplus=True, backend="triton")
assert y[..., 5:].isnan().all() and (y[..., :5] == clean[..., :5]).all()
print("agrees")
"""


def test_triton_agrees_with_the_loop_in_the_interpreter():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "agrees\n", done.stderr
