"""When a kernel made for inference on the CPU may stand in for a module's own operations."""

import torch
from torch import Tensor


def may_use_cpu_kernels(tensor: Tensor) -> bool:
    """Say whether nothing needs gradients, mixed precision or a graph, and the tensor is an ordinary CPU one."""
    return (
        tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )
