"""The fused refinement of `kernels.refinement` for tensors."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from mambamatcher.errors import InputError
from mambamatcher.kernels import refinement
from mambamatcher.kernels.refinement import BlockWeights, Head
from mambamatcher.ops.native.threads import thread_count

__all__ = ["BlockWeights", "Head", "as_array", "block_weights", "refine"]


def as_array(tensor: Float[Tensor, "*shape"]) -> Float32[np.ndarray, "*shape"]:
    """Return a tensor on the CPU as an array of float32, without a copy where it is one already."""
    return tensor.detach().float().numpy()


def block_weights(state: Mapping[str, Tensor]) -> BlockWeights:
    """Read the parameters from the `state_dict()` of a Mamba block."""
    return BlockWeights.from_state({name: as_array(value) for name, value in state.items()})


def refine(
    sequence: Float[Tensor, "batch position level"],
    order: Int[Tensor, "batch position"],
    block: BlockWeights,
    head: Head,
    discretization: str = "euler",
) -> Float[Tensor, "batch position"]:
    """Scan tokens in a given order and return one score per token, without gradients; see `kernels.refinement`.

    Raises:
        InputError: The tokens are not on the CPU, or shapes or types do not match.
    """
    if sequence.device.type != "cpu":
        raise InputError(f"expected tokens on the CPU, got them on {sequence.device}")
    scores = refinement.refine(as_array(sequence), order.numpy(), block, head, discretization, thread_count())
    return torch.from_numpy(scores)
