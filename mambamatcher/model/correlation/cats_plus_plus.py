"""CATs++: a pyramid of correlation maps, refined from coarse to fine by transformers with 4D convolutions inside."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds, check_length
from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    AppearanceAggregator,
    CorrelationMap,
    FeatureShape,
    Refined,
    ShapedConfig,
    SourceFeatures,
    TargetFeatures,
    check_grid,
)
from mambamatcher.ops.upsample4d import upsample4d

STAGES = 3
MAX_POSITIONS = 4096  # a token is as wide as the coarsest grid has positions, and every position of the finest is one

Volume = Float[Tensor, "batch channel hs ws ht wt"]
Appearance = Float[Tensor, "batch appearance ht wt"]


class SeparableConv4d(nn.Module):
    """The sum of a 2D convolution over the source grid and one over the target grid.

    With a stride, each convolution sees the largest score of each cell of the other image's grid.

    Args:
        before: Input channels.
        after: Output channels.
        kernel: Kernel sizes over source and target.
        stride: Strides over source and target.
    """

    def __init__(
        self, before: int, after: int, kernel: tuple[int, int] = (3, 3), stride: tuple[int, int] = (1, 1)
    ) -> None:
        super().__init__()
        self.stride = stride
        self.over_source = nn.Conv2d(before, after, kernel[0], stride[0], padding=kernel[0] // 2)
        self.over_target = nn.Conv2d(before, after, kernel[1], stride[1], padding=kernel[1] // 2)

    def forward(self, x: Volume) -> Float[Tensor, "batch after _ _ _ _"]:
        """Convolve over all four dimensions."""
        of_source = swap(_over_target(self.over_source, swap(_pool_target(x, self.stride[1]))))
        of_target = _over_target(self.over_target, swap(_pool_target(swap(x), self.stride[0])))
        return of_source + of_target


def swap(x: Volume) -> Float[Tensor, "batch channel ht wt hs ws"]:
    """Exchange source and target."""
    return rearrange(x, "b c hs ws ht wt -> b c ht wt hs ws")


def _over_target(convolution: nn.Conv2d, x: Volume) -> Float[Tensor, "batch after hs ws _ _"]:
    b, _, hs, ws, _, _ = x.shape
    convolved = convolution(rearrange(x, "b c hs ws ht wt -> (b hs ws) c ht wt"))
    return rearrange(convolved, "(b hs ws) c ht wt -> b c hs ws ht wt", b=b, hs=hs, ws=ws)


def _pool_target(x: Volume, size: int) -> Float[Tensor, "batch channel hs ws _ _"]:
    if size == 1:
        return x
    return F.max_pool2d(x.flatten(0, 3)[:, None], size).squeeze(1).unflatten(0, x.shape[:4])


class VolumetricBlock(nn.Module):
    """Attention among the target positions, between 4D convolutions.

    A query or key is a position's convolved scores on a coarser source grid, with its appearance, projected, plus its
    learnt position. A value is its convolved scores. A feed-forward layer of two 4D convolutions follows. Each channel
    is a head.
    """

    def __init__(self, config: "CatsPlusPlusAggregation", grid: tuple[int, int], coarser: int) -> None:
        super().__init__()
        channels, hidden = config.channels, config.hidden_ratio * config.channels
        kernel = max(3, coarser + 1), 3
        self.norm = nn.GroupNorm(1, channels)
        self.embed = nn.Sequential(SeparableConv4d(channels, channels, kernel, (coarser, 1)), nn.GroupNorm(1, channels))
        scores = channels * (grid[0] // coarser) * (grid[1] // coarser)
        self.query_key = nn.Linear(scores + config.appearance, 2 * config.width)
        self.positions = nn.Parameter(torch.empty(grid[0] * grid[1], config.width // channels))
        self.value = nn.Sequential(SeparableConv4d(channels, channels, kernel), nn.GroupNorm(1, channels))
        self.feed_forward = nn.Sequential(
            nn.GroupNorm(1, channels),
            SeparableConv4d(channels, hidden, kernel),
            nn.GELU(),
            SeparableConv4d(hidden, channels, kernel),
        )
        nn.init.trunc_normal_(self.positions, std=0.02)

    def forward(self, x: Volume, appearance: Appearance) -> Volume:
        """Attend among target positions, given their appearance."""
        channels = x.shape[1]
        seen = self.norm(x)
        tokens = rearrange(self.embed(seen), "b c hs ws ht wt -> b (ht wt) (c hs ws)")
        tokens = torch.cat([tokens, rearrange(appearance, "b c ht wt -> b (ht wt) c")], dim=-1)
        query, key = (
            rearrange(each, "b n (d head) -> b head n d", head=channels) + self.positions
            for each in self.query_key(tokens).chunk(2, dim=-1)
        )
        value = rearrange(self.value(seen), "b head hs ws ht wt -> b head (ht wt) (hs ws)")
        attended = F.scaled_dot_product_attention(query, key, value)
        x = x + attended.mT.unflatten(3, x.shape[4:]).unflatten(2, x.shape[2:4])
        return x + self.feed_forward(x)


class CatsPlusPlusAggregator(AppearanceAggregator):
    """Embed the levels of each stage, then refine the stages from the coarsest to the finest, each from both sides."""

    def __init__(self, features: FeatureShape, sizes: tuple[int, ...], config: "CatsPlusPlusAggregation") -> None:
        super().__init__()
        self.grid, self.sizes = features.grid, sizes
        self.last_levels = [sum(sizes[: stage + 1]) - 1 for stage in range(STAGES)]
        self.channels = [features.channels[level] for level in self.last_levels]
        scales = [2**stage for stage in range(STAGES)]
        self.embed = nn.ModuleList(
            nn.Sequential(
                SeparableConv4d(levels, config.channels, stride=(scale, scale)),
                nn.GroupNorm(1, config.channels),
                nn.ReLU(),
            )
            for levels, scale in zip(sizes, scales, strict=True)
        )
        self.appearance = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, config.appearance, 3, scale, padding=1), nn.ReLU(), nn.Dropout2d(config.dropout)
            )
            for channels, scale in zip(self.channels, scales, strict=True)
        )
        h, w = features.grid
        self.blocks = nn.ModuleList(
            VolumetricBlock(config, (h // scale, w // scale), scales[-1] // scale) for scale in scales
        )

    def refine_pair(self, correlation: CorrelationMap, source: SourceFeatures, target: TargetFeatures) -> Refined:
        """Refine a correlation map with the help of the features.

        Raises:
            InputError: The map has another grid than the one that the aggregator was built for.
        """
        check_grid("CATs++", correlation, self.grid)
        stages = correlation.relu().split(self.sizes, dim=1)
        embedded = [embed(maps) for embed, maps in zip(self.embed, stages, strict=True)]
        return self.aggregate(embedded, self._appearances(source), self._appearances(target))

    def _appearances(self, features: Float[Tensor, "batch level channel h w"]) -> list[Float[Tensor, "batch _ _ _"]]:
        """Project the last level of each stage to the grid of the stage."""
        levels = zip(self.appearance, self.last_levels, self.channels, strict=True)
        return [project(features[:, level, :channels]) for project, level, channels in levels]

    def aggregate(
        self,
        embedded: list[Float[Tensor, "batch channel _ _ _ _"]],
        source: list[Float[Tensor, "batch appearance _ _"]],
        target: list[Float[Tensor, "batch appearance _ _"]],
    ) -> Float[Tensor, "batch _ _ _ _"]:
        """Refine embedded stages, listed from the finest to the coarsest, into one map of the finest."""
        refined = None
        for stage in reversed(range(STAGES)):
            x = embedded[stage]
            if refined is not None:
                x = x + upsample4d(refined.flatten(0, 1), 2).unflatten(0, refined.shape[:2])
            block = self.blocks[stage]
            refined = x + block(x, target[stage]) + swap(block(swap(x), source[stage]))
        assert refined is not None
        return refined.mean(dim=1)


@CORRELATION_AGGREGATIONS.register("cats_plus_plus")
@dataclass(frozen=True, kw_only=True, slots=True)
class CatsPlusPlusAggregation(ShapedConfig):
    """CATs++ (Cho et al., TPAMI 2022). The defaults are the sizes of its published model.

    At 30 levels of ResNet-101 and its 32x32 grid it has 5,497,576 parameters.

    What is the same: the ReLU on scores, a separable 4D convolution for each stage before the transformers, attention
    with convolved scores and appearance, 4D convolutions for values and in the feed-forward layer, both directions
    with shared weights, and the refinement from coarse to fine. What differs: the published stages have grids of their
    own, 64, 32 and 16 positions wide, and halve them. Here all levels are on one grid, 32 wide, and the convolutions
    of the three stages keep, halve and quarter it. Coarse maps are interpolated by the centres of their cells instead
    of their corners. The public code transfers target points to the source image; here the source has its role.

    The weights fit one grid, of up to 4,096 positions, whose sides are multiples of 4, and three levels or more.

    Attributes:
        stages: Levels of the finest, the middle and the coarsest stage, in the order of the levels. By default each
            has a third, and the coarsest the rest.
        channels: Channels of an embedded stage, and attention heads.
        appearance: Channels to which the features of the last level of a stage are projected.
        width: Channels of queries and keys of all heads.
        hidden_ratio: Hidden channels of a feed-forward layer per channel.
        dropout: Share of appearance channels that training drops.
    """

    stages: tuple[int, ...] = ()
    channels: int = 4
    appearance: int = 128
    width: int = 512
    hidden_ratio: int = 4
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_length("correlation", self, stages=STAGES)
        check_bounds("correlation", self, stages=(1, 128), channels=(1, 32), appearance=(1, 1024), width=(1, 2048))
        check_bounds("correlation", self, hidden_ratio=(1, 8))
        if self.stages and len(self.stages) != STAGES:
            raise ConfigError(f"correlation.stages must have {STAGES} numbers or none, got {list(self.stages)}")
        if self.width % self.channels:
            raise ConfigError(
                f"correlation.width {self.width} does not divide into {self.channels} heads, one for each channel; "
                f"use a multiple of {self.channels}"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"correlation.dropout must be at least 0 and below 1, got {self.dropout}")

    def build_for(self, features: FeatureShape) -> CatsPlusPlusAggregator:
        """Build the aggregator.

        Raises:
            ConfigError: The grid does not divide into the stages, or there are too few levels.
        """
        (h, w), step = features.grid, 2 ** (STAGES - 1)
        if h % step or w % step or h * w > MAX_POSITIONS:
            raise ConfigError(
                f"CATs++ takes grids of up to {MAX_POSITIONS:,} positions with sides that are multiples of {step}, "
                f"such as 16x16 or 32x32; got {h}x{w}. Use another side"
            )
        levels = len(features.channels)
        if levels < STAGES or (self.stages and sum(self.stages) != levels):
            wanted = f"{sum(self.stages)} levels, as correlation.stages says" if self.stages else "3 levels or more"
            raise ConfigError(f"CATs++ takes {wanted}; the features have {levels}. Use other backbone.layers or stages")
        third = levels // STAGES
        sizes = self.stages or (third, third, levels - 2 * third)
        return CatsPlusPlusAggregator(features, sizes, self)
