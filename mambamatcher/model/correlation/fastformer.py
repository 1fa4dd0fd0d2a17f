"""FastFormer over all positions of the correlation map, as in TransforMatcher."""

from dataclasses import dataclass

from einops import rearrange
from torch import nn

from mambamatcher.model.config import check_bounds
from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Refined,
    mean_of_levels,
)
from mambamatcher.model.layers.fastformer import FastFormerLayer


class FastFormerAggregator(CorrelationAggregator):
    """Additive-attention layers over the correlation sequence, then a projection to one score per position."""

    def __init__(self, levels: int, config: "FastFormerAggregation") -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(FastFormerLayer(levels, config.heads, config.head_width) for _ in range(config.depth))
        )
        self.project = mean_of_levels(levels)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        sequence = rearrange(correlation, "b level hs ws ht wt -> b (hs ws ht wt) level")
        return self.project(self.layers(sequence)).squeeze(-1).unflatten(1, correlation.shape[2:])


@CORRELATION_AGGREGATIONS.register("fastformer")
@dataclass(frozen=True, kw_only=True, slots=True)
class FastFormerAggregation(CorrelationConfig):
    """By default six layers of four heads of width 8: 26,081 parameters at 16 levels, the paper's "26.0K"."""

    depth: int = 6
    heads: int = 4
    head_width: int = 8

    def __post_init__(self) -> None:
        check_bounds("correlation", self, depth=(1, 64), heads=(1, 64), head_width=(1, 256))

    def build(self, levels: int) -> FastFormerAggregator:
        """Build the aggregator."""
        return FastFormerAggregator(levels, self)
