"""Run compiled kernels on several cores with Python threads.

The kernels release the GIL, so Python threads run in parallel. Numba's threading layers are not used: one aborts when
two Python threads call it at the same time, the other hangs in a forked process.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

_pools: dict[int, ThreadPoolExecutor] = {}

if sys.platform != "win32":  # threads do not survive a fork, so a child process must start its own
    os.register_at_fork(after_in_child=_pools.clear)


def run(function: Callable[..., object], tasks: Iterable[tuple], threads: int) -> None:
    """Call `function` with each tuple of arguments, using that many threads including the calling one."""
    pending = deque(tasks)
    helpers = min(threads, len(pending)) - 1

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
    """Wait for the helpers that have started and cancel the others, which would find no task left."""
    for future in futures:
        if not future.cancel():
            future.result()
