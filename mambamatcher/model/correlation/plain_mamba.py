"""PlainMamba's direction-aware snake scan, extended from two dimensions to the four of a correlation map."""

from dataclasses import dataclass, field

from einops import rearrange

from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Refined,
    mean_of_levels,
)
from mambamatcher.model.correlation.similarity_scan import PAPER_BLOCK
from mambamatcher.model.layers.grid_scans import SnakeScan
from mambamatcher.model.layers.mamba import MambaSettings


class PlainMamba4dAggregator(CorrelationAggregator):
    """Convolve over the positions of each image, then scan along eight snakes (two directions of four axes)."""

    def __init__(self, levels: int, settings: MambaSettings) -> None:
        super().__init__()
        self.scan = SnakeScan(levels, axes=4, settings=settings)
        self.project = mean_of_levels(levels)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        shape = tuple(correlation.shape[2:])
        sequence = rearrange(correlation, "b level hs ws ht wt -> b (hs ws ht wt) level")
        return self.project(sequence + self.scan(sequence, shape)).squeeze(-1).unflatten(1, shape)


@CORRELATION_AGGREGATIONS.register("plain_mamba")
@dataclass(frozen=True, kw_only=True, slots=True)
class PlainMamba4dAggregation(CorrelationConfig):
    """Row "PlainMamba" of the paper's correlation table."""

    mamba: MambaSettings = field(default=PAPER_BLOCK)

    def build(self, levels: int) -> PlainMamba4dAggregator:
        """Build the aggregator."""
        return PlainMamba4dAggregator(levels, self.mamba)
