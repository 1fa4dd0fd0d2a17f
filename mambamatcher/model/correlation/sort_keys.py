"""Which similarity the correlation sequence is sorted by (App. "layers used for sorting")."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from mambamatcher.registry import Registry

Sequence = Float[Tensor, "batch position level"]
Similarity = Float[Tensor, "batch position"]

SORT_KEYS: Registry[Callable[[Sequence], Similarity]] = Registry("sort key")


@SORT_KEYS.register("last")
def last(sequence: Sequence) -> Similarity:
    """Use the 2L-th level: the deepest layer's tokens."""
    return sequence[..., -1]


@SORT_KEYS.register("penultimate")
def penultimate(sequence: Sequence) -> Similarity:
    """Use the level before the last; with a single level there is only that one."""
    return sequence[..., max(sequence.shape[-1] - 2, 0)]


@SORT_KEYS.register("mean")
def mean(sequence: Sequence) -> Similarity:
    """Use the mean over all levels."""
    return sequence.mean(dim=-1)
