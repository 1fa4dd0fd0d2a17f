"""Compares the memory a pair needs with what is free: too large a side is refused with advice instead of a crash."""

from collections.abc import Callable
from pathlib import Path

from mambamatcher.errors import MemoryLimitError

CONTAINER = Path("/sys/fs/cgroup")
LIBRARIES = 400 * 2**20  # what threads, packed matrices and compiled kernels take, found by measuring
FLOATS_PER_PIXEL = 64  # of a backbone's activations at their widest


def available_bytes() -> int | None:
    """Return how much memory can still be taken; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return min([*free, *_container_bytes()], default=None)


def _container_bytes() -> list[int]:
    """Return what a container's own limit leaves, if there is one."""
    try:
        limit, used = (
            (CONTAINER / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current")
        )
    except OSError:
        return []
    return [max(0, int(limit) - int(used))] if limit.isdigit() else []


def check_memory(needed_at: Callable[[int], int], side: int, stride: int, pair: bool = True) -> None:
    """Refuse a pair, or a single image, that would not fit, and say which side would.

    Args:
        needed_at: Estimates the bytes needed at a side.
        side: Side of the images.
        stride: What every side is a multiple of.
        pair: Whether two images are to be correlated.
    """
    available, needed = available_bytes(), needed_at(side)
    if available is None or needed <= available:
        return
    fitting = [each for each in range(stride, side, stride) if needed_at(each) <= available]
    advice = f"a side of {fitting[-1]} would fit" if fitting else "no smaller side would fit either"
    what = "a pair" if pair else "an image"
    raise MemoryLimitError(
        f"{what} at {side} pixels needs about {_gigabytes(needed)} of memory and {_gigabytes(available)} is free; "
        f"{advice}"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"
