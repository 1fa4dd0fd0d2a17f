"""The scan inside torch.compile. Run without the jaxtyping hook, which breaks full graphs."""

import pytest
import torch

from mambamatcher.ops import selective_scan

from . import oracle
from .oracle import Case

pytestmark = pytest.mark.compile


@pytest.mark.parametrize("case", [Case(), Case(B="constant", C="two groups", discretization="zoh")], ids=str)
def test_a_full_graph_gives_the_same_outputs_and_gradients(case):
    @torch.compile(fullgraph=True)
    def compiled(leaves):
        doubled = {name: 2 * leaf if name == "u" else leaf for name, leaf in leaves.items()}
        y, state = selective_scan(**doubled, **case.arguments(), return_last_state=True, backend="cpu")
        return y / 2, state / 2

    oracle.assert_same(oracle.differentiate(case.make(), compiled), oracle.expected(case))


def test_auto_compiles_in_a_full_graph():
    inputs = Case().make()
    compiled = torch.compile(lambda: selective_scan(**inputs, delta_softplus=True), fullgraph=True)
    torch.testing.assert_close(compiled(), selective_scan(**inputs, delta_softplus=True))


def test_the_operator_passes_every_check_of_torch():
    from mambamatcher.ops.selective_scan.cpu import scan_cpu

    u, delta, A, B, C, D, z, bias = (tensor.requires_grad_() for tensor in Case(length=10).make().values())
    torch.library.opcheck(scan_cpu, (u, delta, A, B[:, None], C[:, None], None, D, z, bias, True, False))
