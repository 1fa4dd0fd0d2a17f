"""All levels fused into one descriptor per position: a simple head for fine-tuning a backbone."""

from dataclasses import dataclass

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.model.config import check_bounds
from mambamatcher.model.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator


class FusedAggregator(PerImageAggregator):
    """Normalise each level, project all levels together, and add a small convolution over the neighbourhood."""

    def __init__(self, channels: int, levels: int, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(levels * channels, width)
        self.neighbours = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.mix = nn.Conv2d(width, width, 1)
        nn.init.orthogonal_(self.project.weight)  # preserves the angles between features as far as the width allows
        nn.init.zeros_(self.project.bias)
        for parameter in self.mix.parameters():  # adds zero at first, so that an untrained model can match
            nn.init.zeros_(parameter)

    def per_image(self, features: Features) -> Float[Tensor, "batch 1 width h w"]:
        """Fuse the levels of each position into one descriptor."""
        levels = rearrange(features, "b level c h w -> b h w level c")
        normalised = F.layer_norm(levels, levels.shape[-1:])
        fused = rearrange(self.project(normalised.flatten(3)), "b h w c -> b c h w")
        return (fused + self.mix(F.gelu(self.neighbours(fused))))[:, None]


@FEATURE_AGGREGATIONS.register("fused")
@dataclass(frozen=True, kw_only=True, slots=True)
class FusedAggregation(FeatureConfig):
    """Fuses all levels into a single level of `width` channels. Not in the paper."""

    width: int = 384

    def __post_init__(self) -> None:
        check_bounds("features", self, width=(1, 8192))

    def levels_after(self, levels: int) -> int:
        """Return 1, because the levels are fused."""
        return 1

    def channels_after(self, channels: tuple[int, ...]) -> tuple[int, ...]:
        """Return the width of the one level."""
        return (self.width,)

    def build(self, channels: int, levels: int = 1) -> FusedAggregator:
        """Build the aggregator."""
        return FusedAggregator(channels, levels, self.width)
