"""How many threads the CPU kernels use for tensors."""

import os

import torch


def thread_count() -> int:
    """Return NUMBA_NUM_THREADS if it is set, else the number of threads torch uses (one in a data-loader worker)."""
    return int(os.environ.get("NUMBA_NUM_THREADS", 0)) or torch.get_num_threads()
