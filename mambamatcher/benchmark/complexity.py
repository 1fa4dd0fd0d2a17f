"""Parameters and floating-point operations of each stage, with the paper's figures."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.flop_counter import FlopCounterMode

from mambamatcher.model.backbones import VitConfig
from mambamatcher.model.correlation import (
    Conv4dAggregation,
    FastFormerAggregation,
    SimilarityScanAggregation,
    correlation_map,
)
from mambamatcher.model.features import ConvAggregation
from mambamatcher.model.layers.mamba import Mamba
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig, count_parameters

# tables "Memory, Latency and # Params" and "FLOPs"; for the scan, the paper's theoretical count
PAPER_SIDE = 420
PAPER_FIGURES: dict[Any, tuple[str, str]] = {
    VitConfig(): ("86.6M", "359 G"),
    ConvAggregation(): ("42.5M", "2.45 T"),
    Conv4dAggregation(): ("1.3K", "2.06 G"),
    FastFormerAggregation(): ("26.0K", "43.5 G"),
    SimilarityScanAggregation(): ("5.1K", "23.2 G"),
}


@dataclass(frozen=True, slots=True)
class StageCost:
    """Cost of one stage for one pair of images. A multiply-add counts as two operations."""

    name: str
    parameters: int
    flops: int
    paper_parameters: str | None = None
    paper_flops: str | None = None


def stages(config: ModelConfig) -> list[StageCost]:
    """Count every stage of a configuration on shapes alone, without loading weights."""
    with torch.device("meta"):
        model = MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random"))).eval()
        images = torch.rand(1, 3, config.side, config.side)
    extracted, backbone = _count(lambda: (model.backbone(images), model.backbone(images)))
    aggregated, features = _count(lambda: model.features(*extracted))
    correlation, correlating = _count(lambda: correlation_map(*aggregated))
    _, refining = _count(lambda: model.correlation.refine_pair(correlation, *aggregated))
    counted = (
        ("backbone", replace(config.backbone, weights="pretrained"), model.backbone, backbone),
        ("features", config.features, model.features, features),
        ("correlation map", None, torch.nn.Identity(), correlating),
        ("correlation", config.correlation, model.correlation, refining),
    )
    return [
        StageCost(
            name, count_parameters(module), flops, *(PAPER_FIGURES.get(part, ()) if config.side == PAPER_SIDE else ())
        )
        for name, part, module, flops in counted
    ]


def _count(compute: Callable[[], Any]) -> tuple[Any, int]:
    import_module("mambamatcher.ops.selective_scan.cpu")  # registers the operator that the counter needs
    scan = torch.ops.mambamatcher.selective_scan_cpu
    counter = FlopCounterMode(display=False, custom_mapping={scan: _scan_flops})
    convolutions: list[int] = []  # of Mamba blocks, written as sums of products that the counter does not see

    def count_convolution(module: torch.nn.Module, inputs: tuple[Any, ...], _: Any) -> None:
        if isinstance(module, Mamba):
            convolutions.append(2 * inputs[0].shape[0] * inputs[0].shape[1] * module.conv1d.weight.numel())

    handle = register_module_forward_hook(count_convolution)
    try:
        with counter, torch.no_grad():
            result = compute()
    finally:
        handle.remove()
    return result, counter.get_total_flops() + sum(convolutions)


def _scan_flops(
    u_shape: tuple[int, ...], delta_shape: tuple[int, ...], A_shape: tuple[int, ...], *_: Any, **__: Any
) -> int:
    """Count nine operations per position, channel and state, as the paper does: the recurrence and its output."""
    batch, length = u_shape[0], u_shape[2]
    channels, state = A_shape
    return 9 * batch * length * channels * state
