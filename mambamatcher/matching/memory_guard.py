"""Foreseeing how much memory a pair needs, so that too much is refused with advice instead of a crash."""

from pathlib import Path

from mambamatcher.errors import MemoryLimitError
from mambamatcher.model.correlation.similarity_scan import SimilarityScan
from mambamatcher.model.features.conv import ConvAggregator
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.ops.winograd import best_tile, working_bytes

CONTAINER = Path("/sys/fs/cgroup")
FLOAT = 4
LIBRARIES = 400 * 2**20  # what threads, packed matrices and compiled kernels take, found by measuring
FLOATS_PER_PIXEL = 64  # of a backbone's activations at their widest
FUSED_BYTES = 8 + 16 + 4  # a token's place in the order, what sorting takes besides, and its score
UNFUSED_COPIES = 16  # of the correlation map, in an aggregator that stores what lies between its steps


def needed_bytes(model: MambaMatcher, side: int) -> int:
    """Estimate what matching one pair at this side takes at most, beyond the loaded model."""
    grid = (side // model.backbone.stride, side // model.backbone.stride)
    positions = grid[0] * grid[1]
    levels = len(model.backbone.level_channels)
    views = 2 if model.config.mirror else 1
    features = 2 * views * levels * model.backbone.channels * positions * FLOAT
    # one picture at a time, while the other's features are kept
    extracting = views * FLOATS_PER_PIXEL * side**2 * FLOAT + 2 * features
    aggregating = 2 * features + _convolution_bytes(model.features, grid, views * levels)
    tokens = positions**2
    fused = isinstance(model.correlation, SimilarityScan) and model.correlation.can_be_fused
    refining = FUSED_BYTES if fused else UNFUSED_COPIES * levels * FLOAT
    comparing = 2 * features + tokens * (levels * FLOAT + refining)
    return max(extracting, aggregating, comparing) + _kept_bytes(model.features, grid) + LIBRARIES


def _convolution_bytes(features: object, grid: tuple[int, int], maps: int) -> int:
    if not isinstance(features, ConvAggregator):
        return 0
    if not features.pays:
        return maps * features.widen.out_channels * grid[0] * grid[1] * FLOAT
    return working_bytes(maps, features.widen.in_channels, grid)


def _kept_bytes(features: object, grid: tuple[int, int]) -> int:
    """Return the size of the transformed weights that are yet to be made and kept."""
    if not isinstance(features, ConvAggregator) or not features.pays or not features.keep_transformed:
        return 0
    elements = (best_tile(grid) + 2) ** 2
    weights = features.widen.weight[..., 0, 0].numel() + features.narrow.weight[..., 0, 0].numel()
    return 0 if features.has_transformed(grid) else elements * weights * FLOAT


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


def check_memory(model: MambaMatcher, side: int) -> None:
    """Refuse a pair that would not fit, and say which side would."""
    available = available_bytes()
    needed = needed_bytes(model, side)
    if available is None or needed <= available or model.backbone.mean.device.type != "cpu":
        return
    stride = model.backbone.stride
    fitting = [each for each in range(stride, side, stride) if needed_bytes(model, each) <= available]
    advice = f"a side of {fitting[-1]} would fit" if fitting else "no smaller side would fit either"
    raise MemoryLimitError(
        f"a pair at {side} pixels needs about {_gigabytes(needed)} of memory and {_gigabytes(available)} is free; "
        f"{advice}"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"
