"""Time, memory and parameters of the paper's modules on this machine. Weights are random: the cost is the same."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mambamatcher.benchmark.complexity import stages
from mambamatcher.benchmark.measurement import Measurement, measure
from mambamatcher.model.correlation import (
    Conv4dAggregation,
    CorrelationConfig,
    FastFormerAggregation,
    SimilarityScanAggregation,
    correlation_map,
)
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig, count_parameters
from mambamatcher.paper.output import COMPUTED, MEASURED, Cell, Row

AGGREGATIONS: dict[str, CorrelationConfig] = {
    "4D Conv k=3": Conv4dAggregation(),
    "FastFormer": FastFormerAggregation(),
    "Mamba + similarity-aware scan": SimilarityScanAggregation(),
}
RUNS = 2
_EXTRA_MEMORY = "memory that the process holds beyond what it held before"


def device() -> str:
    """Return the device to measure on: a GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def module_rows(config: ModelConfig) -> list[Row]:
    """Measure each module alone on one pair of images."""
    chosen = device()
    model = MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random"))).eval().to(chosen)
    images = torch.rand(2, 3, config.side, config.side, device=chosen)
    with torch.inference_mode():
        extracted, backbone = _measure(lambda: model.backbone(images).split(1))
        aggregated, features = _measure(lambda: model.features(*extracted))
        correlation = correlation_map(*aggregated)
        rows = [_row("DINOv2", model.backbone, backbone), _row("Feature aggregation", model.features, features)]
        del model, extracted, aggregated
        for name, aggregation in AGGREGATIONS.items():
            module = aggregation.build(correlation.shape[1]).eval().to(chosen)
            rows.append(_row(name, module, _measure(partial(module, correlation))[1]))
    return rows


def pair_cost(model: MambaMatcher) -> tuple[tuple[Cell, Cell], str]:
    """Measure milliseconds and gigabytes of one pair of square images in memory, up to ten points.

    Returns:
        The two values, and how they were measured: on a CPU as processor time, which other load affects less.
    """
    chosen = model.backbone.mean.device
    images = torch.rand(2, 1, 3, model.config.side, model.config.side, device=chosen)
    points = torch.rand(1, 10, 2, device=chosen) * 2 - 1

    def transfer() -> torch.Tensor:
        return model(*images, points)

    with torch.inference_mode():
        transfer()
        if chosen.type == "cuda":
            gigabytes: float | None
            gigabytes, seconds = _on_gpu(transfer)
            where = torch.cuda.get_device_name()
        else:
            found = measure(transfer, RUNS, warm_up=False)
            gigabytes, seconds = _gigabytes(found), found.cpu_seconds
            where = f"CPU, processor time of {torch.get_num_threads()} thread(s); {_EXTRA_MEMORY}"
    return (Cell(value=round(1000 * seconds)), Cell(value=gigabytes)), f"{where}; best of {RUNS} runs after a first one"


def head_cost(config: ModelConfig, *, with_features: bool) -> tuple[Cell, Cell, Cell, Cell]:
    """Measure a head on one pair of random images.

    Args:
        config: Configuration of the model.
        with_features: Whether the feature aggregation is a part of the head.

    Returns:
        Its parameters; milliseconds and gigabytes from the levels of the backbone to the refined map; and the gigabytes
        that a training step of one pair takes.
    """
    model = MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random"))).eval().to(device())
    parts = (model.features, model.correlation) if with_features else (model.correlation,)

    def refine() -> Tensor:
        return model.correlate(*model.features.per_image(levels).split(1))

    with torch.no_grad():
        levels = model.backbone(torch.rand(2, 3, config.side, config.side, device=device()))
        gigabytes, milliseconds = _measure(refine)[1]
    model.features.requires_grad_(with_features)
    training = _measure(lambda: refine().sum().backward())[1][0]
    return Cell(value=sum(map(count_parameters, parts))), milliseconds, gigabytes, training


def resolution_cost_rows(levels: int, grids: dict[int, int]) -> list[Row]:
    """Measure two correlation aggregations alone on random maps.

    Args:
        levels: Number of levels of the correlation map.
        grids: Side of the feature grid for each image side.
    """
    rows = []
    with torch.inference_mode():
        for side, grid in grids.items():
            correlation = torch.rand(1, levels, grid, grid, grid, grid, device=device())
            for name in ("Mamba + similarity-aware scan", "FastFormer"):
                module = AGGREGATIONS[name].build(levels).eval().to(device())
                cost = _measure(partial(module, correlation))[1]
                cells = (Cell(value=grid), *cost)
                rows.append(Row(name=f"{name}, side {side}", origin=MEASURED, protocol=how_measured(), cells=cells))
    return rows


def flop_rows(config: ModelConfig) -> list[Row]:
    """Count FLOPs with torch's counter. The scan counts as nine operations per position, channel and state."""
    how = "torch's FlopCounterMode on shapes alone; a multiply-add is two"
    counted = {stage.name: stage.flops for stage in stages(config)}
    rows = {"DINOv2": counted["backbone"], "Feature aggregation": counted["features"]}
    for name, aggregation in AGGREGATIONS.items():
        rows[name] = next(s.flops for s in stages(replace(config, correlation=aggregation)) if s.name == "correlation")
    return [
        Row(name=name, origin=COMPUTED, protocol=how, cells=(Cell(value=flops / 1e9),)) for name, flops in rows.items()
    ]


def _measure(compute: Callable[[], Any]) -> tuple[Any, tuple[Cell, Cell]]:
    """Return the result, its peak memory and the shortest time of several runs after a warm-up."""
    result = compute()
    gigabytes, seconds = _on_gpu(compute) if torch.cuda.is_available() else _on_cpu(compute)
    return result, (Cell(value=gigabytes), Cell(value=1000 * seconds))


def _on_cpu(compute: Callable[[], Any]) -> tuple[float | None, float]:
    found = measure(compute, RUNS, warm_up=False)
    return _gigabytes(found), found.seconds


def _gigabytes(found: Measurement) -> float | None:
    return None if found.extra_mib is None else found.extra_mib * 2**20 / 1e9


def _on_gpu(compute: Callable[[], Any]) -> tuple[float, float]:
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(RUNS):
        torch.cuda.synchronize()  # kernels still run after a call returns
        started = time.perf_counter()
        compute()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return torch.cuda.max_memory_allocated() / 1e9, min(seconds)


def _row(name: str, module: torch.nn.Module, cost: tuple[Cell, Cell]) -> Row:
    cells = (*cost, Cell(value=f"{count_parameters(module):,}"))
    return Row(name=name, origin=MEASURED, protocol=how_measured(), cells=cells)


def how_measured() -> str:
    """Describe how a module was measured."""
    if torch.cuda.is_available():
        where = torch.cuda.get_device_name()
    else:
        where = f"CPU, {torch.get_num_threads()} thread(s); {_EXTRA_MEMORY}"
    return f"{where}; this module alone, best of {RUNS} runs after a first one"
