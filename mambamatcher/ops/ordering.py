"""Stable orders of scores. Cosine maps hold many equal scores, so an unstable sort differs between machines."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mambamatcher.ops.native.threads import run

_MOST = 2**32 - 1  # positions are kept in 32 bits while sorting


def stable_argsort(scores: Float[Tensor, "*batch position"], descending: bool = True) -> Int[Tensor, "*batch position"]:
    """Return the positions in the order of their scores, equal ones as they came, as torch's stable sort does.

    NaN counts as the greatest score. On the CPU this is a radix sort, elsewhere torch's own.
    """
    scores = scores.detach()
    half = scores.dtype in (torch.float16, torch.bfloat16)
    if scores.device.type != "cpu" or not (half or scores.dtype == torch.float32) or scores.shape[-1] > _MOST:
        return scores.argsort(dim=-1, descending=descending, stable=True)
    from mambamatcher.ops.radix_sort import radix_argsort  # Numba: 0.3 s that a model without a scan need not wait for

    rows = scores.float().reshape(-1, scores.shape[-1]) if scores.numel() else scores.new_empty(0, 1)
    order = torch.empty(rows.shape, dtype=torch.int64)
    run(radix_argsort, [(row.numpy(), descending, out.numpy()) for row, out in zip(rows, order, strict=True)])
    return order.reshape(scores.shape)


def invert(order: Int[Tensor, "*batch position"]) -> Int[Tensor, "*batch position"]:
    """Return where each position went: `take(take(x, order), invert(order))` is x."""
    ranks = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, ranks)
