"""Register a forward and a backward kernel as a torch operator, for autograd and torch.compile.

Kernels work in float32 and on one layout: B and C are (batch, group, state, length). Constant B and C are passed as one
`weight` of shape (dim, state), which multiplies the output of each mode. D, z, delta_bias and weight may be None.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.library import custom_op

Forward: TypeAlias = Callable[..., tuple[Tensor, Tensor, Tensor]]
Backward: TypeAlias = Callable[..., Sequence[Tensor]]

# u, delta, A, B, C, and weight, D, z, delta_bias where given
Inputs: TypeAlias = tuple[
    Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None
]
_COUNT = 9


def define(
    name: str, forward: Forward, backward: Backward, kept: Callable[[Tensor, Tensor], Sequence[int]]
) -> Callable:
    """Register the operator `mambamatcher::name`.

    Args:
        name: Name of the operator.
        forward: `forward(inputs, softplus, zoh)` returns the outputs, the last state, and a tensor that is kept for the
            backward pass.
        backward: `backward(dy, d_last, kept, inputs, softplus, zoh)` returns a gradient for each input, empty for None.
        kept: `kept(u, B)` returns the shape of the tensor that is kept.

    Returns:
        The operator.
    """

    @custom_op(f"mambamatcher::{name}", mutates_args=())
    def operator(
        u: Tensor,
        delta: Tensor,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        weight: Tensor | None,
        D: Tensor | None,
        z: Tensor | None,
        delta_bias: Tensor | None,
        softplus: bool,
        zoh: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return forward((u, delta, A, B, C, weight, D, z, delta_bias), softplus, zoh)

    @operator.register_fake
    def _(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
        return torch.empty_like(u), A.new_empty(u.shape[0], *A.shape), u.new_empty(kept(u, B))

    gradient = _define_gradient(f"{name}_backward", backward)

    def remember(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.softplus, ctx.zoh = inputs[_COUNT:]
        ctx.save_for_backward(*inputs[:_COUNT], output[2])

    def differentiate(ctx: Any, dy: Tensor | None, d_last: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        *inputs, states = ctx.saved_tensors
        dy = torch.zeros_like(inputs[0]) if dy is None else dy
        gradients = gradient(dy, d_last, states, *inputs, ctx.softplus, ctx.zoh)
        present = (None if tensor is None else grad for tensor, grad in zip(inputs, gradients, strict=True))
        return (*present, None, None)

    operator.register_autograd(differentiate, setup_context=remember)
    return operator


def _define_gradient(name: str, backward: Backward) -> Callable:
    @custom_op(f"mambamatcher::{name}", mutates_args=())
    def operator(
        dy: Tensor,
        d_last: Tensor | None,
        kept: Tensor,
        u: Tensor,
        delta: Tensor,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        weight: Tensor | None,
        D: Tensor | None,
        z: Tensor | None,
        delta_bias: Tensor | None,
        softplus: bool,
        zoh: bool,
    ) -> list[Tensor]:
        return list(backward(dy, d_last, kept, (u, delta, A, B, C, weight, D, z, delta_bias), softplus, zoh))

    @operator.register_fake
    def _(dy: Tensor, d_last: Tensor | None, kept: Tensor, *inputs: Any) -> list[Tensor]:
        return empty_gradients(inputs[:_COUNT])

    return operator


def empty_gradients(inputs: Sequence[Tensor | None]) -> list[Tensor]:
    """Allocate a gradient for each input. Those of B and C have the state innermost, as the kernels write them."""
    u, delta, A, B, C, *optional = inputs
    assert u is not None
    assert B is not None
    assert C is not None
    by_step = [t.new_empty(*t.shape[:2], t.shape[3], t.shape[2]).transpose(2, 3) for t in (B, C)]
    others = [u.new_empty(0) if t is None else torch.empty_like(t) for t in (u, delta, A, *optional)]
    return [*others[:3], *by_step, *others[3:]]
