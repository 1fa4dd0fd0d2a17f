"""Two convolutions shared by all levels: the paper's feature aggregation (Sec. 4.1)."""

from dataclasses import dataclass

import torch.nn.functional as F
from einops import rearrange
from torch import nn

from mambamatcher.errors import ConfigError
from mambamatcher.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator


class ConvAggregator(PerImageAggregator):
    """Widen, then narrow again, each time looking at a small neighbourhood."""

    def __init__(self, channels: int, config: "ConvAggregation") -> None:
        super().__init__()
        hidden, size = config.hidden_ratio * channels, config.kernel_size
        self.widen = nn.Conv2d(channels, hidden, size, padding=size // 2)
        self.narrow = nn.Conv2d(hidden, channels, size, padding=size // 2)
        self.final_activation = config.final_activation
        self.residual = config.residual

    def aggregate(self, features: Features) -> Features:
        """Convolve every level with the same weights."""
        maps = rearrange(features, "b level c h w -> (b level) c h w")
        refined = self.narrow(F.relu(self.widen(maps)))
        if self.final_activation:
            refined = F.relu(refined)
        if self.residual:
            refined = maps + refined
        return rearrange(refined, "(b level) c h w -> b level c h w", level=features.shape[1])


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

    def build(self, channels: int) -> ConvAggregator:
        """Make the module."""
        return ConvAggregator(channels, self)
