"""Time, memory and size of the paper's modules on this machine, with random weights: values do not matter for cost."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from mambamatcher.analysis.complexity import stages
from mambamatcher.analysis.results import COMPUTED, MEASURED, Cell, Row
from mambamatcher.correlation import (
    Conv4dAggregation,
    CorrelationConfig,
    FastFormerAggregation,
    SimilarityScanAggregation,
    correlation_map,
)
from mambamatcher.model import MambaMatcher, ModelConfig, count_parameters

AGGREGATIONS: dict[str, CorrelationConfig] = {
    "4D Conv k=3": Conv4dAggregation(),
    "FastFormer": FastFormerAggregation(),
    "Mamba + similarity-aware scan": SimilarityScanAggregation(),
}
RUNS = 2


def device() -> str:
    """Return where to measure: a GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def module_rows(config: ModelConfig) -> list[Row]:
    """Measure each module by itself on one pair of images."""
    place = device()
    model = MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random"))).eval().to(place)
    images = torch.rand(2, 3, config.side, config.side, device=place)
    with torch.inference_mode():
        extracted, backbone = _measure(lambda: model.extract(images).split(1))
        aggregated, features = _measure(lambda: model.features(*extracted))
        correlation = correlation_map(*aggregated)
        rows = [_row("DINOv2", model.backbone, backbone), _row("Feature aggregation", model.features, features)]
        del model, extracted, aggregated
        for name, aggregation in AGGREGATIONS.items():
            module = aggregation.build(correlation.shape[1]).eval().to(place)
            rows.append(_row(name, module, _measure(partial(module, correlation))[1]))
    return rows


def resolution_rows(levels: int, grids: dict[int, int]) -> list[Row]:
    """Measure two aggregations by themselves on random maps; `grids` has a grid for each image side."""
    rows = []
    with torch.inference_mode():
        for side, grid in grids.items():
            correlation = torch.rand(1, levels, grid, grid, grid, grid, device=device())
            for name in ("Mamba + similarity-aware scan", "FastFormer"):
                module = AGGREGATIONS[name].build(levels).eval().to(device())
                cost = _measure(partial(module, correlation))[1]
                cells = (Cell(value=grid), *cost)
                rows.append(Row(name=f"{name}, side {side}", origin=MEASURED, protocol=_how(), cells=cells))
    return rows


def flop_rows(config: ModelConfig) -> list[Row]:
    """Count with torch's counter, which knows the scan as nine operations a position, channel and state."""
    how = "torch's FlopCounterMode on shapes alone; a multiply-add is two"
    counted = {stage.name: stage.flops for stage in stages(config)}
    rows = {"DINOv2": counted["backbone"], "Feature aggregation": counted["features"]}
    for name, aggregation in AGGREGATIONS.items():
        rows[name] = next(s.flops for s in stages(replace(config, correlation=aggregation)) if s.name == "correlation")
    return [
        Row(name=name, origin=COMPUTED, protocol=how, cells=(Cell(value=flops / 1e9),)) for name, flops in rows.items()
    ]


def _measure(compute: Callable[[], Any]) -> tuple[Any, tuple[Cell, Cell]]:
    """Return the result, and the peak memory (of a GPU) and the least time of some runs after a first one."""
    result, seconds = compute(), []
    on_gpu = torch.cuda.is_available()
    clock = time.perf_counter if on_gpu else time.process_time  # which others on the machine do not lengthen
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(RUNS):
        _wait(on_gpu)
        begun = clock()
        result = compute()
        _wait(on_gpu)
        seconds.append(clock() - begun)
    memory = Cell(value=torch.cuda.max_memory_allocated() / 1e9) if on_gpu else Cell()
    return result, (memory, Cell(value=1000 * min(seconds)))


def _wait(on_gpu: bool) -> None:
    if on_gpu:  # its work goes on after a call returns
        torch.cuda.synchronize()


def _row(name: str, module: torch.nn.Module, cost: tuple[Cell, Cell]) -> Row:
    cells = (*cost, Cell(value=f"{count_parameters(module):,}"))
    return Row(name=name, origin=MEASURED, protocol=_how(), cells=cells)


def _how() -> str:
    where = (
        torch.cuda.get_device_name()
        if torch.cuda.is_available()
        else f"CPU time over {torch.get_num_threads()} thread(s)"
    )
    return f"{where}; this module alone, best of {RUNS} runs after a first one"
