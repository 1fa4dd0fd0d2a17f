"""Time of every stage of a pair, with a straightforward implementation and the arithmetic limit to compare."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import torch
from torch import Tensor

from mambamatcher.benchmark.cold_start import FirstPair, measure_first_pair
from mambamatcher.benchmark.complexity import stages
from mambamatcher.benchmark.measurement import Circumstances, circumstances, measure
from mambamatcher.errors import InputError
from mambamatcher.model.checkpoint import find_config, save_pretrained
from mambamatcher.model.correlation import correlation_map
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig
from mambamatcher.model.transfer import transfer_points

WHOLE = "whole pair"
LARGEST_STRAIGHTFORWARD = 420  # its scan takes minutes beyond this
POINTS = 10
MATMUL = 2048


@dataclass(frozen=True, slots=True)
class StageTime:
    """Time of one stage at one image side.

    Attributes:
        side: Side of the images in pixels.
        stage: Name of the stage.
        seconds: Our time.
        floor_seconds: Time of its arithmetic at the speed of a large matrix product.
        plain_seconds: Time of the straightforward version.
        plain_channels_last_seconds: The same with the channels-last memory format.
    """

    side: int
    stage: str
    seconds: float
    floor_seconds: float
    plain_seconds: float | None = None
    plain_channels_last_seconds: float | None = None

    def as_line(self) -> str:
        """Return the times as a line of text."""
        line = f"{self.side:>4} px  {self.stage:16} {self.seconds:8.3f} s   limit {self.floor_seconds:7.3f} s"
        if self.plain_seconds is not None:
            line += f"   straightforward {self.plain_seconds:8.3f} s, {self.plain_seconds / self.seconds:5.1f} x ours"
        if self.plain_channels_last_seconds is not None:
            line += f" (channels last {self.plain_channels_last_seconds:.3f} s)"
        return line


@dataclass(frozen=True, slots=True)
class PairBenchmark:
    """All results of a run."""

    circumstances: Circumstances
    preset: str
    matmul_gflops: float
    rows: list[StageTime]
    processes: list[FirstPair]

    def as_dict(self) -> dict:
        """Return plain containers, for JSON."""
        processes = [asdict(each) | {"cold_start_seconds": each.cold_start_seconds} for each in self.processes]
        return asdict(self) | {"processes": processes}


def matmul_gflops() -> float:
    """Measure the speed of a large matrix product on this machine."""
    matrix = torch.rand(MATMUL, MATMUL)
    return 2 * MATMUL**3 / measure(lambda: matrix @ matrix, 5).seconds / 1e9


def load_straightforward(path: Path) -> ModuleType:
    """Import the straightforward version of each stage from a file.

    Raises:
        InputError: If there is no such file.
    """
    spec = spec_from_file_location("straightforward", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(
            f"there is no Python file {path}; use benchmarks/straightforward.py from the source of the package"
        )
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def operations(config: ModelConfig) -> dict[str, int]:
    """Count the operations that each stage needs at least. Convolutions are counted with Winograd's algorithm."""
    counted = {stage.name: stage.flops for stage in stages(config)}
    with torch.device("meta"):
        model = MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random")))
    grid = (config.side // model.backbone.stride,) * 2
    products = model.features.winograd_products(grid, maps=2 * len(model.backbone.level_channels))
    if products is not None:
        counted["features"] = 2 * products
    return {
        "backbone": counted["backbone"],
        "features": counted["features"],
        "correlation map": counted["correlation map"],
        "refinement": counted["correlation"],
        "transfer": 0,
        WHOLE: sum(counted.values()),
    }


def benchmark_pair(
    model: MambaMatcher, sides: tuple[int, ...], repeats: int, plain: ModuleType | None
) -> Iterator[tuple[float, StageTime]]:
    """Measure each stage at each side, smallest first. Yields the matmul speed measured before, and the time."""
    for side in sorted(sides):
        config = replace(model.config, side=side)
        gflops = matmul_gflops()
        floors = {name: count / gflops / 1e9 for name, count in operations(config).items()}
        compared = plain if side <= LARGEST_STRAIGHTFORWARD else None
        with torch.inference_mode():
            for row in _rows(model, side, repeats, compared):
                yield gflops, replace(row, floor_seconds=floors[row.stage])


def _rows(model: MambaMatcher, side: int, repeats: int, plain: ModuleType | None) -> Iterator[StageTime]:
    """Run the stages in order, each on the output of the one before."""
    images = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    points = torch.rand(1, POINTS, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
    transfer = model.config.transfer
    plain_total = 0.0

    def straightforward(name: str, *arguments: Tensor) -> float | None:
        """Time one call of the straightforward function. It is slow, so one call is enough."""
        if plain is None:
            return None
        return measure(lambda: getattr(plain, name)(model, *arguments), 1, warm_up=False).seconds

    def row(stage: str, ours: Callable[[], object], name: str, *arguments: Tensor) -> StageTime:
        nonlocal plain_total
        slow = straightforward(name, *arguments)
        plain_total += slow or 0.0
        return StageTime(side, stage, measure(ours, repeats).seconds, 0.0, slow)

    def whole() -> Tensor:
        return model(images[:1], images[1:], points)

    yield row("backbone", lambda: model.backbone(images), "extract", images)
    extracted = model.backbone(images)
    aggregation = row("features", lambda: _aggregate(model, extracted), "aggregate", extracted)
    yield replace(aggregation, plain_channels_last_seconds=straightforward("aggregate_channels_last", extracted))
    source, target = _aggregate(model, extracted)
    del extracted
    yield row("correlation map", lambda: correlation_map(source, target), "correlate", source, target)
    correlation = correlation_map(source, target)
    yield row("refinement", lambda: model.correlation.refine_pair(correlation, source, target), "refine", correlation)
    refined = model.correlation.refine_pair(correlation, source, target)
    del correlation, source, target
    yield row("transfer", lambda: transfer_points(refined, points, transfer), "transfer", refined, points)
    yield StageTime(side, WHOLE, measure(whole, repeats).seconds, 0.0, None if plain is None else plain_total)


def _aggregate(model: MambaMatcher, extracted: Tensor) -> tuple[Tensor, ...]:
    """Aggregate both images' features."""
    return model.features.per_pair(*model.features.per_image(extracted).split(1))


def random_model(preset: str) -> MambaMatcher:
    """Build the model of a preset with random weights."""
    config = find_config(preset)
    return MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random"))).eval()


def benchmark_preset(
    preset: str, sides: tuple[int, ...], repeats: int, against: Path | None, show: Callable[[str], object] | None
) -> PairBenchmark:
    """Measure the stages and the first pair of a preset.

    Args:
        preset: Name of the model.
        sides: Sides of the images.
        repeats: Runs per stage and starts of a process. The fastest counts.
        against: File with the straightforward version.
        show: Called with a line of text as soon as a stage is measured.
    """
    plain = None if against is None else load_straightforward(against)
    model = random_model(preset)
    gflops, rows = [], []
    for speed, row in benchmark_pair(model, sides, repeats, plain):
        gflops.append(speed)
        rows.append(row)
        if show is not None:
            show(row.as_line())
    with TemporaryDirectory() as folder:
        processes = []
        for side in sides:
            model.config = replace(model.config, side=side)
            save_pretrained(model, folder, overwrite=True)
            for low_memory in (False, True):
                starts = [measure_first_pair(Path(folder), side, low_memory) for _ in range(repeats)]
                processes.append(min(starts, key=lambda start: start.cold_start_seconds))
    return PairBenchmark(circumstances(), preset, max(gflops), rows, processes)
