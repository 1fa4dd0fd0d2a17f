"""Implementations that the scan benchmark compares. All take the same tensors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mambamatcher.model.correlation.conv4d import Conv4dAggregation
from mambamatcher.model.correlation.fastformer import FastFormerAggregation
from mambamatcher.model.correlation.similarity_scan import PAPER_BLOCK
from mambamatcher.model.layers.mamba import Mamba
from mambamatcher.ops import selective_scan
from mambamatcher.ops.native.memory import empty_as
from mambamatcher.ops.ordering import stable_argsort
from mambamatcher.ops.refinement import Head, as_array, block_weights, refine

LEVELS, INNER, STATE = 16, 48, 16  # the paper's block
OURS, REFINEMENT = "ours", "ours, whole refinement"


@dataclass(frozen=True, slots=True)
class Contestant:
    """An implementation to measure.

    Attributes:
        name: Name in reports.
        run: Computes the result.
        mib: Memory that it is expected to need.
        inputs: Tensors to differentiate by.
        quadratic_gradient: Whether the time of its gradient grows with the square of the length.
    """

    name: str
    run: Callable[[], Tensor]
    mib: float
    inputs: Sequence[Tensor]
    quadratic_gradient: bool = False


@dataclass(frozen=True, slots=True)
class ScanTensors:
    """Arguments of the scan as a Mamba block passes them, with the same memory layout."""

    u: Tensor
    delta: Tensor
    A: Tensor
    B: Tensor
    C: Tensor
    D: Tensor
    z: Tensor
    bias: Tensor

    @classmethod
    def random(cls, tokens: int, differentiable: bool) -> "ScanTensors":
        """Return random tensors of one sequence."""
        generator = torch.Generator().manual_seed(0)

        def sequence(width: int) -> Tensor:
            values = torch.randn(1, tokens, width, generator=generator).requires_grad_(differentiable)
            return values.transpose(1, 2)

        A = -torch.arange(1.0, STATE + 1).repeat(INNER, 1).requires_grad_(differentiable)
        D, bias = (torch.full((INNER,), value).requires_grad_(differentiable) for value in (1.0, -3.0))
        return cls(sequence(INNER), sequence(INNER), A, sequence(STATE), sequence(STATE), D, sequence(INNER), bias)

    @staticmethod
    def expected_mib(tokens: int) -> float:
        """Return the memory of the inputs for this number of tokens."""
        return tokens * (3 * INNER + 2 * STATE) * 4 / 2**20

    def mib(self) -> float:
        """Return the memory of the inputs and the output."""
        return tensor_mib(self.u, self.delta, self.B, self.C, self.z, self.u)


def scans(tensors: ScanTensors) -> Iterator[Contestant]:
    """Yield the scans, ours first."""
    t, unit = tensors, tensor_mib(tensors.u)
    expanded = unit * STATE  # a tensor with channels and states
    ours: Callable = partial(selective_scan, t.u, t.delta, t.A, t.B, t.C, t.D, t.z, t.bias, True)
    inputs = (t.u, t.delta, t.A, t.B, t.C, t.D, t.z, t.bias)
    yield Contestant(OURS, partial(ours, backend="cpu"), 5 * unit, inputs)
    yield Contestant("chunked torch", partial(ours, backend="chunked"), 5 * unit, inputs)
    loop_mib = _loop_mib(t, 4 * unit, 12 * expanded)
    yield Contestant("loop (unbind)", partial(ours, backend="reference"), loop_mib, inputs)
    if find_spec("mambapy") is not None:
        padded = expanded * 2 ** (t.u.shape[2] - 1).bit_length() / t.u.shape[2]
        pscan_mib = _loop_mib(t, 2 * expanded + 3 * padded, 12 * padded)
        from mambapy.pscan import pscan  # type: ignore[import-untyped]

        yield Contestant("mamba.py pscan", partial(_pscan, pscan, t), pscan_mib, inputs)
    from transformers.models.mamba.modeling_mamba import mamba_selective_scan

    slow_mib = _loop_mib(t, 3.5 * expanded, 12 * expanded)
    transformers_scan = partial(mamba_selective_scan, t.u, t.delta, t.A, t.B, t.C, t.D, t.z, t.bias, True)
    yield Contestant("transformers, slow path", transformers_scan, slow_mib, inputs, quadratic_gradient=True)


def aggregators(grid: int, differentiable: bool) -> Iterator[Contestant]:
    """Yield aggregations of a whole correlation map of 16 levels. Ours comes first and has no gradient."""
    torch.manual_seed(0)
    correlation = torch.rand(1, LEVELS, *(grid,) * 4).requires_grad_(differentiable)
    unit = tensor_mib(correlation)
    if not differentiable:
        block, head = Mamba(LEVELS, PAPER_BLOCK), nn.Linear(LEVELS, 1)
        weights = block_weights(block.state_dict())
        sequence = empty_as(torch.empty(1, grid**4, LEVELS, device="meta"))  # memory as the correlation map has it
        sequence.copy_(correlation.flatten(2).transpose(1, 2))
        order = stable_argsort(sequence[..., -1])
        fused = partial(refine, sequence, order, weights, Head(as_array(head.weight), as_array(head.bias)))
        yield Contestant(REFINEMENT, fused, unit, ())
    fastformer, convolution = FastFormerAggregation().build(LEVELS), Conv4dAggregation().build(LEVELS)
    for name, module, share in (("FastFormer, 6 layers", fastformer, 12), ("4D convolution, k = 3", convolution, 10)):
        mib = unit * share * (6 if differentiable else 1)
        yield Contestant(name, partial(module, correlation), mib, (correlation, *module.parameters()))


def _loop_mib(tensors: ScanTensors, forward: float, with_graph: float) -> float:
    return with_graph if tensors.A.requires_grad else forward


def _pscan(pscan: Callable, t: ScanTensors) -> Tensor:
    """Scan with mamba.py's parallel scan, which takes discretised tensors."""
    delta = F.softplus(t.delta + t.bias[:, None]).transpose(1, 2)
    decay = torch.exp(delta.unsqueeze(-1) * t.A)
    drive = (delta * t.u.transpose(1, 2)).unsqueeze(-1) * t.B.transpose(1, 2).unsqueeze(2)
    states = pscan(decay, drive)
    y = (states @ t.C.transpose(1, 2).unsqueeze(-1)).squeeze(3).transpose(1, 2)
    return (y + t.D[:, None] * t.u) * F.silu(t.z)


def tensor_mib(*tensors: Tensor | None) -> float:
    """Return the memory of tensors."""
    return sum(tensor.nbytes for tensor in tensors if tensor is not None) / 2**20
