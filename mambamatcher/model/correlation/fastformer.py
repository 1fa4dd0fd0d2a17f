"""FastFormer over all positions of the correlation map, as in TransforMatcher."""

from dataclasses import dataclass

from einops import rearrange
from torch import nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds
from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    MAX_UPSAMPLING,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Upsampled,
    upsampling_bytes,
)
from mambamatcher.model.layers.fastformer import FastFormerLayer
from mambamatcher.ops.upsample4d import upsample4d


class FastFormerAggregator(CorrelationAggregator):
    """Embed the positive scores of each position, apply additive-attention layers, project to one score, upsample."""

    def __init__(self, levels: int, config: "FastFormerAggregation") -> None:
        super().__init__()
        self.embed = nn.Linear(levels, config.width)
        self.layers = nn.Sequential(
            *(
                FastFormerLayer(config.width, config.heads, config.head_width, config.rotary)
                for _ in range(config.depth)
            )
        )
        self.project = nn.Linear(config.width, 1)
        self.upsample = config.upsample

    def forward(self, correlation: CorrelationMap) -> Upsampled:
        """Refine a correlation map."""
        sequence = rearrange(correlation.relu(), "b level hs ws ht wt -> b (hs ws ht wt) level")
        refined = self.project(self.layers(self.embed(sequence))).squeeze(-1).unflatten(1, correlation.shape[2:])
        return upsample4d(refined, self.upsample)

    def bytes_per_score(self, levels: int) -> int:
        """Estimate memory per score: that of the layers, and that of the upsampled map."""
        return super().bytes_per_score(levels) + upsampling_bytes(self.upsample)


@CORRELATION_AGGREGATIONS.register("fastformer")
@dataclass(frozen=True, kw_only=True, slots=True)
class FastFormerAggregation(CorrelationConfig):
    """Row "FastFormer" of the paper's correlation table. The defaults are TransforMatcher's.

    At 16 levels it has 25,933 parameters. Without rotary positions it has 25,993, the paper's "26.0K".

    Attributes:
        width: Channels to which the levels of each position are embedded.
        depth: Number of layers.
        heads: Attention heads per layer.
        head_width: Channels per head.
        rotary: Whether queries and keys are rotated by their position in the flattened map. `head_width` must be even.
        upsample: Factor by which the refined map is interpolated on every axis. TransforMatcher's is 2, from 15 to 30
            positions; the paper's row keeps the grid.
    """

    width: int = 16
    depth: int = 6
    heads: int = 8
    head_width: int = 4
    rotary: bool = True
    upsample: int = 1

    def __post_init__(self) -> None:
        check_bounds("correlation", self, width=(1, 1024), depth=(1, 64), heads=(1, 64), head_width=(1, 256))
        check_bounds("correlation", self, upsample=(1, MAX_UPSAMPLING))
        if self.rotary and self.head_width % 2:
            raise ConfigError(
                f"correlation.rotary needs an even head_width, got {self.head_width}; use {self.head_width + 1} or "
                f"rotary=false"
            )

    def build(self, levels: int) -> FastFormerAggregator:
        """Build the aggregator."""
        return FastFormerAggregator(levels, self)
