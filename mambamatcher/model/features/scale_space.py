"""CHM's scale space: every level at several scales, and every scale of the source with every scale of the target."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_length
from mambamatcher.model.features.base import (
    FEATURE_AGGREGATIONS,
    AggregatedSource,
    AggregatedTarget,
    FeatureAggregator,
    FeatureConfig,
    Features,
)

NARROWER = 4  # channels before for one after
TINY = 1e-12  # keeps the gradient of a square root finite
EPSILON = 1e-6


class ScaleSpaceAggregator(FeatureAggregator):
    """Resize features to each scale, apply that scale's convolution, normalise, and resize back to the grid.

    CHM correlates the normalised features of each pair of scales and then interpolates the scores. Interpolation is
    linear, so the scores are products of interpolated features. These are shorter than 1, and cosine similarity would
    lengthen them again. So they get two more channels: what they lack to the length 1, each image in its own channel.
    """

    pairwise = True  # the levels of a pair are all pairs of scales

    def __init__(self, channels: int, scales: tuple[float, ...]) -> None:
        super().__init__()
        self.scales = scales
        after = _narrowed(channels)
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, after, 3, padding=1, bias=False) for _ in scales)

    def per_image(self, features: Features) -> Float[Tensor, "batch level_scale channel_after h w"]:
        """Compute the features of all scales; the last channel is what they lack to the length 1."""
        count, grid = len(features), features.shape[-2:]
        maps = features.flatten(0, 1)
        by_scale = []
        for scale, convolution in zip(self.scales, self.convolutions, strict=True):
            scaled = convolution(_resized(maps, [max(1, round(side * sqrt(scale))) for side in grid]))
            by_scale.append(_resized(F.normalize(scaled, dim=1, eps=EPSILON), grid))
        stacked = torch.stack(by_scale, dim=1)
        lacking = (1.0 - stacked.square().sum(dim=2, keepdim=True)).clamp_min(TINY).sqrt()
        return rearrange(torch.cat([stacked, lacking], dim=2), "(b level) s c h w -> b (level s) c h w", b=count)

    def per_pair(
        self, source: AggregatedSource, target: AggregatedTarget
    ) -> tuple[Float[Tensor, "batch pair channel hs ws"], Float[Tensor, "batch pair channel ht wt"]]:
        """Repeat the features so that the levels are all pairs of scales, source scale first."""
        count = len(self.scales)
        # what the source lacks stays before a channel of zeros, what the target lacks moves behind one
        source = F.pad(source, (0, 0, 0, 0, 0, 1))
        target = F.pad(target, (0, 0, 0, 0, 0, 1))
        target = torch.cat([target[:, :, :-2], target[:, :, -2:].flip(2)], dim=2)
        return (
            repeat(source, "b (level s) c h w -> b (level s t) c h w", s=count, t=count),
            repeat(target, "b (level t) c h w -> b (level s t) c h w", s=count, t=count),
        )


def _narrowed(channels: int) -> int:
    return max(1, channels // NARROWER)


def _resized(maps: Float[Tensor, "map channel h w"], grid: Sequence[int]) -> Tensor:
    if tuple(maps.shape[-2:]) == tuple(grid):
        return maps
    return F.interpolate(maps, tuple(grid), mode="bilinear", align_corners=False)


@FEATURE_AGGREGATIONS.register("scale_space")
@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleSpaceAggregation(FeatureConfig):
    """The features of CHM (Min and Cho, CVPR 2021), for the correlation aggregation `hough`. Not in the paper.

    Each scale has its own 3x3 convolution to a quarter of the channels, shared by all levels.

    Attributes:
        scales: Areas of the resized feature maps, relative to the grid.
    """

    scales: tuple[float, ...] = (0.5, 1.0, 2.0)

    def __post_init__(self) -> None:
        check_length("features", self, scales=5)
        if not self.scales or not all(0.1 <= scale <= 10 for scale in self.scales):
            raise ConfigError(f"features.scales must be one to five numbers from 0.1 to 10, got {list(self.scales)}")

    def levels_after(self, levels: int) -> int:
        """Return the number of levels times that of pairs of scales."""
        return levels * len(self.scales) ** 2

    def channels_after(self, channels: tuple[int, ...]) -> tuple[int, ...]:
        """Return a quarter of the channels, and the two for what source and target lack to the length 1."""
        return (_narrowed(max(channels)) + 2,) * self.levels_after(len(channels))

    def build(self, channels: int, levels: int = 1) -> ScaleSpaceAggregator:
        """Build the aggregator."""
        return ScaleSpaceAggregator(channels, self.scales)
