"""Two convolutions shared by all levels: the paper's feature aggregation (Sec. 4.1)."""

from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator
from mambamatcher.model.layers.inference import may_use_cpu_kernels
from mambamatcher.ops.winograd import Maps, Slice, Weights, best_tile, convolve_twice, fits, working_bytes

LEAST_CHANNELS = 64  # below, transforming tiles costs more than the multiplications it saves


class Kept(NamedTuple):
    """Transformed weights, and what they were made from."""

    stamp: tuple[tuple[int, int], ...]
    originals: tuple[Tensor, ...]  # held, so that nothing else can come to lie at their addresses
    tile: int
    slices: list[Slice]


class ConvAggregator(PerImageAggregator):
    """Widen, then narrow again, each time looking at a small neighbourhood.

    For inference on the CPU 3×3 convolutions run by Winograd's algorithm. Its weights, seven times the size of the
    module's own, are made at the first use and kept, unless `keep_transformed` is false: then they are made again,
    a slice at a time, for each use.
    """

    def __init__(self, channels: int, config: "ConvAggregation") -> None:
        super().__init__()
        hidden, size = config.hidden_ratio * channels, config.kernel_size
        self.widen = nn.Conv2d(channels, hidden, size, padding=size // 2)
        self.narrow = nn.Conv2d(hidden, channels, size, padding=size // 2)
        self.final_activation = config.final_activation
        self.residual = config.residual
        if config.residual:  # begin as what is added to: an untrained model then still matches
            for parameter in self.narrow.parameters():
                nn.init.zeros_(parameter)
        self._kept: Kept | None = None

    def per_image(self, features: Features) -> Features:
        """Convolve every level with the same weights."""
        maps = rearrange(features, "b level c h w -> (b level) c h w")
        refined = self._winograd(maps) if self.pays and may_use_cpu_kernels(maps) else self._direct(maps)
        if self.residual:
            refined = maps + refined
        return rearrange(refined, "(b level) c h w -> b level c h w", level=features.shape[1])

    @property
    def pays(self) -> bool:
        """Whether Winograd's algorithm can take these convolutions, and is quicker."""
        return min(self.widen.weight.shape[:2]) >= LEAST_CHANNELS and fits(self.widen.weight)

    def working_bytes(self, grid: tuple[int, int], maps: int) -> int:
        """Estimate the hidden maps, or the transformed tiles of a slice of them."""
        if self.pays:
            return working_bytes(maps, self.widen.in_channels, grid)
        return maps * self.widen.out_channels * grid[0] * grid[1] * self.widen.weight.element_size()

    def kept_bytes(self, grid: tuple[int, int]) -> int:
        """Estimate the transformed weights that are not there yet."""
        tile = best_tile(grid)
        if not self.pays or not self.keep_transformed or (self._kept is not None and self._kept.tile == tile):
            return 0
        products = self.widen.weight[..., 0, 0].numel() + self.narrow.weight[..., 0, 0].numel()
        return (tile + 2) ** 2 * products * self.widen.weight.element_size()

    def _direct(self, maps: Maps) -> Maps:
        refined = self.narrow(F.relu(self.widen(maps)))
        return F.relu(refined) if self.final_activation else refined

    def _winograd(self, maps: Maps) -> Maps:
        assert self.narrow.bias is not None
        tile = best_tile((maps.shape[2], maps.shape[3]))
        return convolve_twice(maps, self._transformed(tile), self.narrow.bias.detach(), tile, self.final_activation)

    def _transformed(self, tile: int) -> Weights | list[Slice]:
        """Return the weights for a tile size, kept ones only while the parameters are what they were."""
        assert self.widen.bias is not None
        originals = (self.widen.weight.detach(), self.widen.bias.detach(), self.narrow.weight.detach())
        weights = Weights(*originals, tile)
        # a parameter made in inference mode does not count its changes
        if not self.keep_transformed or any(parameter.is_inference() for parameter in self.parameters()):
            self._kept = None
            return weights
        stamp = tuple((parameter.data_ptr(), parameter._version) for parameter in self.parameters())
        with _TRANSFORMING:
            if self._kept is None or (self._kept.stamp, self._kept.tile) != (stamp, tile):
                self._kept = None  # free the old ones before making others
                self._kept = Kept(stamp, originals, tile, list(weights))
            return self._kept.slices

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # a copy makes its own, if it needs them


_TRANSFORMING = Lock()  # not one per module: a lock cannot be copied or pickled


@FEATURE_AGGREGATIONS.register("conv")
@dataclass(frozen=True, kw_only=True, slots=True)
class ConvAggregation(FeatureConfig):
    """Sizes of the two convolutions; the activation after the second follows the equation, not the text."""

    kernel_size: int = 3
    hidden_ratio: int = 4
    final_activation: bool = True
    residual: bool = False

    def __post_init__(self) -> None:
        if self.kernel_size < 1 or self.kernel_size % 2 == 0:
            raise ConfigError(f"features.kernel_size must be odd, got {self.kernel_size}")
        if self.hidden_ratio < 1:
            raise ConfigError(f"features.hidden_ratio must be at least 1, got {self.hidden_ratio}")

    def build(self, channels: int, levels: int = 1) -> ConvAggregator:
        """Make the module."""
        return ConvAggregator(channels, self)
