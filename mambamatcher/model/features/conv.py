"""Two convolutions shared by all levels: the paper's feature aggregation (Sec. 4.1)."""

from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds
from mambamatcher.model.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator
from mambamatcher.model.layers.execution import may_use_cpu_kernels
from mambamatcher.ops.winograd import (
    HiddenSlice,
    Maps,
    Weights,
    best_tile,
    convolve_twice,
    fits,
    tiles_of,
    working_bytes,
)
from mambamatcher.ops.winograd_products import convolve_twice_by_products, dividing_tile

LEAST_CHANNELS = 64  # with fewer, transforming the tiles costs more time than Winograd's algorithm saves


class TransformedWeights(NamedTuple):
    """Cached weights in the Winograd domain, with the parameters they were computed from."""

    stamp: tuple[tuple[int, int], ...]  # address and version of every parameter
    originals: tuple[Tensor, ...]  # references, so that no other tensor can be allocated at the same addresses
    tile: int
    slices: list[HiddenSlice]


class ConvAggregator(PerImageAggregator):
    """Two convolutions: one expands the channels, one reduces them again.

    For inference on the CPU, 3×3 convolutions use Winograd's algorithm. Its transformed weights, seven times the size
    of the module's own, are computed on first use and kept. If `keep_transformed` is false, they are computed again
    for every call, one slice of hidden channels at a time.
    """

    def __init__(self, channels: int, config: "ConvAggregation") -> None:
        super().__init__()
        hidden, size = config.hidden_ratio * channels, config.kernel_size
        self.widen = nn.Conv2d(channels, hidden, size, padding=size // 2)
        self.narrow = nn.Conv2d(hidden, channels, size, padding=size // 2)
        self.final_activation = config.final_activation
        self.residual = config.residual
        if config.residual:  # start as the identity, so that an untrained model can match
            for parameter in self.narrow.parameters():
                nn.init.zeros_(parameter)
        self._kept: TransformedWeights | None = None

    def per_image(self, features: Features) -> Features:
        """Convolve every level with the same weights."""
        maps = rearrange(features, "b level c h w -> (b level) c h w")
        refined = self._winograd(maps) if self.pays and may_use_cpu_kernels(maps) else self._direct(maps)
        if self.residual:
            refined = maps + refined
        return rearrange(refined, "(b level) c h w -> b level c h w", level=features.shape[1])

    @property
    def pays(self) -> bool:
        """Whether Winograd's algorithm supports these convolutions and is faster than direct convolution."""
        return min(self.widen.weight.shape[:2]) >= LEAST_CHANNELS and fits(self.widen.weight)

    def winograd_products(self, grid: tuple[int, int], maps: int) -> int | None:
        """Count the multiplications of both convolutions in the Winograd domain."""
        if not self.pays:
            return None
        tile = best_tile(grid)
        channels = self.widen.weight[..., 0, 0].numel() + self.narrow.weight[..., 0, 0].numel()
        return (tile + 2) ** 2 * tiles_of(grid, tile) * maps * channels

    def working_bytes(self, grid: tuple[int, int], maps: int) -> int:
        """Estimate the size of the hidden maps or, with Winograd's algorithm, of the transformed tiles of one slice."""
        if self.pays:
            return working_bytes(maps, self.widen.in_channels, grid)
        return maps * self.widen.out_channels * grid[0] * grid[1] * self.widen.weight.element_size()

    def kept_bytes(self, grid: tuple[int, int]) -> int:
        """Estimate the size of the transformed weights, or 0 if they are cached already or never kept."""
        tile = best_tile(grid)
        if not self.pays or not self.keep_transformed or (self._kept is not None and self._kept.tile == tile):
            return 0
        products = self.widen.weight[..., 0, 0].numel() + self.narrow.weight[..., 0, 0].numel()
        return (tile + 2) ** 2 * products * self.widen.weight.element_size()

    def _direct(self, maps: Maps) -> Maps:
        tile = (
            dividing_tile((maps.shape[2], maps.shape[3]), self.widen.weight) if self.as_products and self.pays else None
        )
        if tile is not None:
            return convolve_twice_by_products(maps, self.widen, self.narrow, tile, self.final_activation)
        refined = self.narrow(F.relu(self.widen(maps)))
        return F.relu(refined) if self.final_activation else refined

    def _winograd(self, maps: Maps) -> Maps:
        assert self.narrow.bias is not None
        tile = best_tile((maps.shape[2], maps.shape[3]))
        return convolve_twice(maps, self._transformed(tile), self.narrow.bias.detach(), tile, self.final_activation)

    def _transformed(self, tile: int) -> Weights | list[HiddenSlice]:
        """Return the transformed weights for a tile size, from the cache unless the parameters have changed."""
        assert self.widen.bias is not None
        originals = (self.widen.weight.detach(), self.widen.bias.detach(), self.narrow.weight.detach())
        weights = Weights(*originals, tile)
        # A parameter created in inference mode has no version counter, so a change could not be noticed.
        if not self.keep_transformed or any(parameter.is_inference() for parameter in self.parameters()):
            self._kept = None
            return weights
        stamp = tuple((parameter.data_ptr(), parameter._version) for parameter in self.parameters())
        with _TRANSFORMING:
            if self._kept is None or (self._kept.stamp, self._kept.tile) != (stamp, tile):
                self._kept = None  # free the old weights before allocating new ones
                self._kept = TransformedWeights(stamp, originals, tile, list(weights))
            return self._kept.slices

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # a copy computes its own


_TRANSFORMING = Lock()  # global, because a module with a lock could not be copied or pickled


@FEATURE_AGGREGATIONS.register("conv")
@dataclass(frozen=True, kw_only=True, slots=True)
class ConvAggregation(FeatureConfig):
    """Two convolutions shared by all levels.

    Attributes:
        kernel_size: Odd kernel size of both convolutions.
        hidden_ratio: Hidden channels per input channel.
        final_activation: Whether a ReLU follows the second convolution, as in the paper's equation. Its text mentions
            only the one in between.
        residual: Whether the input is added to the output.
    """

    kernel_size: int = 3
    hidden_ratio: int = 4
    final_activation: bool = True
    residual: bool = False

    def __post_init__(self) -> None:
        check_bounds("features", self, kernel_size=(1, 15), hidden_ratio=(1, 16))
        if self.kernel_size % 2 == 0:
            raise ConfigError(f"features.kernel_size must be odd, got {self.kernel_size}")

    def build(self, channels: int, levels: int = 1) -> ConvAggregator:
        """Build the aggregator."""
        return ConvAggregator(channels, self)
