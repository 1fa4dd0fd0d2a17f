"""Fast allocation of large tensors on the CPU."""

import torch
from torch import Tensor

from mambamatcher.kernels.memory import empty


def empty_as(template: Tensor) -> Tensor:
    """Allocate an uninitialised float32 CPU tensor with the shape and strides of a template.

    NumPy asks the system for huge pages and torch does not, so the first write is five times faster. For tensors of
    hundreds of megabytes this saves a third of the time of a scan.

    Args:
        template: A dense tensor, possibly on the meta device.
    """
    return torch.from_numpy(empty(template.numel())).as_strided(template.shape, template.stride())
