"""CATs: a transformer over all levels, whose tokens are rows of the correlation map with projected features."""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds
from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    FLOAT_BYTES,
    AppearanceAggregator,
    CorrelationMap,
    FeatureShape,
    Refined,
    ShapedConfig,
    SourceFeatures,
    TargetFeatures,
    check_grid,
)
from mambamatcher.model.correlation.conv4d import mutual_filter
from mambamatcher.model.layers.attention import AttentionBlock

MAX_POSITIONS = 1024  # a token is as wide as the grid has positions, and the weights grow with its square
INITIAL_STD = 0.02  # of all weights, so that an untrained head returns about the mean of the filtered levels

Tokens = Float[Tensor, "batch level position width"]
Matrix = Float[Tensor, "batch level source_position target_position"]


class LevelProjections(nn.ModuleList):
    """A linear projection of the features of each level to a common width."""

    def __init__(self, channels: tuple[int, ...], width: int) -> None:
        super().__init__(nn.Linear(each, width) for each in channels)
        self.channels = channels

    def forward(
        self, features: Float[Tensor, "batch level channel h w"]
    ) -> Float[Tensor, "batch level position width"]:
        """Project every position; channels that only pad a level are not read."""
        positions = rearrange(features, "b level c h w -> b level (h w) c")
        projected = [project(positions[:, i, :, : self.channels[i]]) for i, project in enumerate(self)]
        return torch.stack(projected, dim=1)


class MultiLevelBlock(nn.Module):
    """Attention among the positions of each level, then among the levels of each position.

    With a single level, the second attention is left out.
    """

    def __init__(self, width: int, heads: int, hidden_ratio: int, levels: int) -> None:
        super().__init__()
        self.within = AttentionBlock(width, heads, hidden_ratio, cross=False)
        self.across = AttentionBlock(width, heads, hidden_ratio, cross=False) if levels > 1 else None

    def forward(self, tokens: Tokens) -> Tokens:
        """Apply both attentions."""
        levels = tokens.shape[1]
        within = rearrange(tokens, "b level n width -> (b level) n width")
        within = self.within(within, within)
        if self.across is None:
            return rearrange(within, "(b level) n width -> b level n width", level=levels)
        across = rearrange(within, "(b level) n width -> (b n) level width", level=levels)
        return rearrange(self.across(across, across), "(b n) level width -> b level n width", b=len(tokens))


class CatsAggregator(AppearanceAggregator):
    """Refine the map from both sides with the same transformer: swapping self-attention.

    First every source position is a token: its filtered scores with all target positions, and its projected feature.
    What the transformer finds is added to the map. Then every target position is a token, in the same way.
    """

    def __init__(self, features: FeatureShape, config: "CatsAggregation") -> None:
        super().__init__()
        self.grid = features.grid
        levels, (h, w) = len(features.channels), features.grid
        width = h * w + config.appearance
        self.hidden, self.heads = config.hidden_ratio * width, config.heads
        self.appearance = LevelProjections(features.channels, config.appearance)
        self.columns = nn.Parameter(torch.empty(levels, 1, w, width // 2))
        self.rows = nn.Parameter(torch.empty(levels, h, 1, width // 2))
        self.blocks = nn.Sequential(
            *(MultiLevelBlock(width, config.heads, config.hidden_ratio, levels) for _ in range(config.depth))
        )
        self.project = nn.Linear(width, h * w)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=INITIAL_STD)
                nn.init.zeros_(module.bias)
        for table in (self.columns, self.rows):
            nn.init.trunc_normal_(table, std=INITIAL_STD)

    def _positions(self) -> Float[Tensor, "level position width"]:
        h, w = self.grid
        both = torch.cat([self.columns.expand(-1, h, -1, -1), self.rows.expand(-1, -1, w, -1)], dim=-1)
        return both.flatten(1, 2)

    def _aggregate(
        self,
        scores: Float[Tensor, "batch level position other"],
        appearance: Float[Tensor, "batch level position appearance"],
    ) -> Float[Tensor, "batch level position other"]:
        return self.project(self.blocks(torch.cat([scores, appearance], dim=-1) + self._positions()))

    def refine_pair(self, correlation: CorrelationMap, source: SourceFeatures, target: TargetFeatures) -> Refined:
        """Refine a correlation map with the help of the features.

        Raises:
            InputError: The map has another grid than the one that the aggregator was built for.
        """
        check_grid("CATs", correlation, self.grid)
        shape = correlation.shape[2:]
        raw = rearrange(mutual_filter(correlation), "b level hs ws ht wt -> b level (hs ws) (ht wt)")
        refined = raw + self._aggregate(raw, self.appearance(source))
        refined = raw + self._aggregate(refined.mT, self.appearance(target)).mT
        return refined.mean(dim=1).unflatten(2, shape[2:]).unflatten(1, shape[:2])

    def bytes_per_score(self, levels: int) -> int:
        """Estimate memory per score: tokens at their widest, in the hidden layer, and the attention of one block."""
        return levels * FLOAT_BYTES * (2 * self.hidden // (self.grid[0] * self.grid[1]) + self.heads + 8)


@CORRELATION_AGGREGATIONS.register("cats")
@dataclass(frozen=True, kw_only=True, slots=True)
class CatsAggregation(ShapedConfig):
    """CATs (Cho et al., NeurIPS 2021). The defaults are the sizes of its published model.

    At its 8 levels of ResNet-101 and its 16x16 grid it has 4,623,360 parameters, of which 926,720 project features.

    What is the same: mutual filtering of every level, tokens of scores and projected features, learnt positions for
    rows and columns, attention within and across levels, swapping with shared weights, the residual of the filtered
    map, and the mean over the levels. What differs: levels are resized by the centres of their cells instead of their
    corners, and matches are read between the centres of cells; a best score of zero or less filters as 1e-6. The
    public code transfers target points to the source image; here the source has its role.

    A token is as wide as the grid has positions, so the weights fit one grid only, of up to 1,024 positions.

    Attributes:
        appearance: Channels to which the features of each level are projected.
        depth: Number of transformer blocks.
        heads: Attention heads. They must divide the positions of the grid plus `appearance`.
        hidden_ratio: Hidden channels of a feed-forward layer per channel of a token.
    """

    appearance: int = 128
    depth: int = 1
    heads: int = 6
    hidden_ratio: int = 4

    def __post_init__(self) -> None:
        check_bounds("correlation", self, appearance=(1, 1024), depth=(1, 16), heads=(1, 64), hidden_ratio=(1, 8))

    def build_for(self, features: FeatureShape) -> CatsAggregator:
        """Build the aggregator.

        Raises:
            ConfigError: The grid is too large, or tokens of its width do not divide into the heads.
        """
        h, w = features.grid
        if h * w > MAX_POSITIONS:
            raise ConfigError(
                f"CATs takes grids of up to {MAX_POSITIONS:,} positions, such as 32x32, because its tokens are as wide "
                f"as the grid has positions; got {h}x{w}. Use a smaller side"
            )
        width = h * w + self.appearance
        step = self.heads * (1 + self.heads % 2)  # an even number of channels: half for rows, half for columns
        if width % step:
            fitting = self.appearance + step - width % step
            raise ConfigError(
                f"a {h}x{w} grid and correlation.appearance={self.appearance} make tokens of {width:,} channels, which "
                f"do not divide into {self.heads} heads and two halves; use correlation.appearance={fitting}"
            )
        return CatsAggregator(features, self)
