"""Run compiled kernels on several cores from ordinary Python threads.

The kernels release the interpreter lock, so Python threads are enough. Numba's own threading layers are not used: one
aborts when two Python threads call it at once, the other hangs in a forked process.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

_pools: dict[int, ThreadPoolExecutor] = {}

# The threads of a pool do not survive a fork: a child starts without pools.
os.register_at_fork(after_in_child=_pools.clear)


def thread_count() -> int:
    """Return NUMBA_NUM_THREADS where it is set, else what torch uses (one, in a data-loader worker)."""
    return int(os.environ.get("NUMBA_NUM_THREADS", 0)) or torch.get_num_threads()


def run(function: Callable[..., object], tasks: Iterable[tuple]) -> None:
    """Call `function` once with each tuple of arguments, on as many threads as there are."""
    pending = deque(tasks)
    helpers = min(thread_count(), len(pending)) - 1

    def work() -> None:
        while pending:
            try:
                task = pending.popleft()
            except IndexError:  # another thread took the last one
                return
            function(*task)

    futures = [_pool(helpers).submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        _finish(futures)


def _pool(size: int) -> ThreadPoolExecutor:
    if size not in _pools:
        _pools.setdefault(size, ThreadPoolExecutor(size, thread_name_prefix="mambamatcher"))
    return _pools[size]


def _finish(futures: list[Future]) -> None:
    """Wait for the helpers that started; the others would find nothing left to do."""
    for future in futures:
        if not future.cancel():
            future.result()
