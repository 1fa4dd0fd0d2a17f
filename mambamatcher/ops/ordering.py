"""Stable sorting. Cosine similarities have many ties, which an unstable sort orders differently on each machine."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mambamatcher.kernels.threads import run
from mambamatcher.ops.native.availability import kernels_are_available
from mambamatcher.ops.native.threads import thread_count

_MOST = 2**32 - 1  # the radix sort stores positions in 32 bits


def stable_argsort(scores: Float[Tensor, "*batch position"], descending: bool = True) -> Int[Tensor, "*batch position"]:
    """Return the positions sorted by score, with ties in their original order.

    The result equals torch's stable argsort. On the CPU it is computed by a radix sort, which is faster.

    Args:
        scores: Scores to sort along the last axis. NaN counts as the largest score.
        descending: Whether the largest score comes first.

    Example:
        >>> stable_argsort(torch.tensor([0.2, 0.9, 0.2]))
        tensor([1, 0, 2])
    """
    scores = scores.detach()
    half = scores.dtype in (torch.float16, torch.bfloat16)
    suits = scores.device.type == "cpu" and (half or scores.dtype == torch.float32) and scores.shape[-1] <= _MOST
    if not suits or not kernels_are_available():
        return scores.argsort(dim=-1, descending=descending, stable=True)
    from mambamatcher.kernels.radix_sort import radix_argsort  # importing Numba takes 0.3 s

    rows = scores.float().reshape(-1, scores.shape[-1]) if scores.numel() else scores.new_empty(0, 1)
    order = torch.empty(rows.shape, dtype=torch.int64)
    tasks = [(row.numpy(), descending, out.numpy()) for row, out in zip(rows, order, strict=True)]
    run(radix_argsort, tasks, thread_count())
    return order.reshape(scores.shape)


def invert(order: Int[Tensor, "*batch position"]) -> Int[Tensor, "*batch position"]:
    """Return the inverse permutation.

    Example:
        >>> order = torch.tensor([2, 0, 1])
        >>> x = torch.tensor([10, 20, 30])
        >>> x[order][invert(order)]
        tensor([10, 20, 30])
    """
    ranks = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, ranks)
