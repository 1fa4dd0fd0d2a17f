"""Memory for large results."""

import ctypes

import numpy as np
import torch
from torch import Tensor

LINE = 64  # bytes of a cache line
KEPT_BLOCK, KEPT = 64 << 20, 512 << 20  # bytes: the largest block that is kept, and all that are
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h has them


def empty_as(template: Tensor) -> Tensor:
    """Allocate float32 on the CPU with the shape and strides of a dense template, which may be on the meta device.

    NumPy asks the system for large pages and torch does not: the first write to fresh memory is then five times faster,
    which for tensors of hundreds of megabytes is a third of the time of a scan.
    """
    values = np.empty(template.numel() + LINE // 4, np.float32)
    # begun at a cache line, a token of sixteen levels is fetched with one line instead of two
    begun = values[-values.ctypes.data % LINE // 4 :]
    return torch.from_numpy(begun[: template.numel()]).as_strided(template.shape, template.stride())


def keep_freed_memory() -> None:
    """Let this process keep the memory that one picture frees for the next, where the C library is glibc.

    It would give large blocks back to the system each time and ask for them again, which for the embedded model takes a
    twentieth of the time, more while other processes do the same. For processes of our own, which do nothing else.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # another library, or Windows
        return
    mallopt(_MMAP_THRESHOLD, KEPT_BLOCK)
    mallopt(_TRIM_THRESHOLD, KEPT)
