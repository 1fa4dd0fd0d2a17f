"""All levels fused into one descriptor per position: the plain head on which a backbone is fine-tuned."""

from dataclasses import dataclass

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator


class FusedAggregator(PerImageAggregator):
    """Normalise each level, project all of them together, and mix each position with its neighbours."""

    def __init__(self, channels: int, levels: int, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(levels * channels, width)
        self.neighbours = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.mix = nn.Conv2d(width, width, 1)
        nn.init.orthogonal_(self.project.weight)  # keeps angles between features as well as this width can
        nn.init.zeros_(self.project.bias)
        for parameter in self.mix.parameters():  # adds nothing at first: an untrained model then still matches
            nn.init.zeros_(parameter)

    def per_image(self, features: Features) -> Float[Tensor, "batch 1 width h w"]:
        """Fuse the levels of each position into one."""
        levels = rearrange(features, "b level c h w -> b h w level c")
        normalised = F.layer_norm(levels, levels.shape[-1:])
        fused = rearrange(self.project(normalised.flatten(3)), "b h w c -> b c h w")
        return (fused + self.mix(F.gelu(self.neighbours(fused))))[:, None]


@FEATURE_AGGREGATIONS.register("fused")
@dataclass(frozen=True, kw_only=True, slots=True)
class FusedAggregation(FeatureConfig):
    """One level of `width` channels made from all levels. Not in the paper."""

    width: int = 384

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError(f"features.width must be at least 1, got {self.width}")

    def levels_after(self, levels: int) -> int:
        """Return 1: the levels are fused."""
        return 1

    def build(self, channels: int, levels: int = 1) -> FusedAggregator:
        """Make the module."""
        return FusedAggregator(channels, levels, self.width)
