"""Estimates the memory a pair needs, so that too large a side is refused with advice instead of a crash."""

from pathlib import Path

from mambamatcher.errors import MemoryLimitError
from mambamatcher.model.mambamatcher import MambaMatcher

CONTAINER = Path("/sys/fs/cgroup")
FLOAT = 4
LIBRARIES = 400 * 2**20  # what threads, packed matrices and compiled kernels take, found by measuring
FLOATS_PER_PIXEL = 64  # of a backbone's activations at their widest


def needed_bytes(model: MambaMatcher, side: int, pair: bool = True) -> int:
    """Estimate what matching one pair at this side takes at most, beyond the loaded model.

    Args:
        model: The model.
        side: Side of the images.
        pair: Whether to correlate two images too, not only to encode each.
    """
    grid = (side // model.backbone.stride, side // model.backbone.stride)
    positions = grid[0] * grid[1]
    levels = len(model.backbone.level_channels)
    views = 2 if model.config.mirror else 1
    features = 2 * views * levels * model.backbone.channels * positions * FLOAT
    # one image at a time, while the other's features are kept
    extracting = views * FLOATS_PER_PIXEL * side**2 * FLOAT + 2 * features
    aggregating = 2 * features + model.features.working_bytes(grid, views * levels)
    left = model.config.features.levels_after(levels)
    correlating = 2 * features + positions**2 * (left * FLOAT + model.correlation.bytes_per_score(left))
    return max(extracting, aggregating, correlating if pair else 0) + model.features.kept_bytes(grid) + LIBRARIES


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


def check_memory(model: MambaMatcher, side: int, pair: bool = True) -> None:
    """Refuse a pair, or a single image, that would not fit, and say which side would."""
    available = available_bytes()
    needed = needed_bytes(model, side, pair)
    if available is None or needed <= available or model.backbone.mean.device.type != "cpu":
        return
    stride = model.backbone.stride
    fitting = [each for each in range(stride, side, stride) if needed_bytes(model, each, pair) <= available]
    advice = f"a side of {fitting[-1]} would fit" if fitting else "no smaller side would fit either"
    what = "a pair" if pair else "an image"
    raise MemoryLimitError(
        f"{what} at {side} pixels needs about {_gigabytes(needed)} of memory and {_gigabytes(available)} is free; "
        f"{advice}"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"
