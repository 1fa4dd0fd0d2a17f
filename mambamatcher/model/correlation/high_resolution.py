"""SCorrSAN's readout at a high resolution: the filtered map, interpolated to a finer grid. Nothing is learnt."""

from dataclasses import dataclass

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
from mambamatcher.model.correlation.conv4d import mutual_filter
from mambamatcher.ops.upsample4d import upsample4d


class HighResolutionAggregator(CorrelationAggregator):
    """Filter every level by mutual nearest neighbours, average the levels, and interpolate."""

    def __init__(self, upsample: int) -> None:
        super().__init__()
        self.upsample = upsample

    def forward(self, correlation: CorrelationMap) -> Upsampled:
        """Refine a correlation map."""
        return upsample4d(mutual_filter(correlation).mean(dim=1), self.upsample)

    def bytes_per_score(self, levels: int) -> int:
        """Estimate memory per score: that of the filter, and that of the upsampled map."""
        return super().bytes_per_score(levels) + upsampling_bytes(self.upsample)


@CORRELATION_AGGREGATIONS.register("high_resolution")
@dataclass(frozen=True, kw_only=True, slots=True)
class HighResolutionAggregation(CorrelationConfig):
    """The correlation of SCorrSAN (Huang et al., ECCV 2022); it has no parameters.

    What differs: the public code aligns the corners of both grids, this package the centres of their cells; and a best
    score of zero or less filters as 1e-6.

    Attributes:
        upsample: Factor by which the map is interpolated on every axis. SCorrSAN's is 4, from 16 to 64 positions.
    """

    upsample: int = 4

    def __post_init__(self) -> None:
        check_bounds("correlation", self, upsample=(1, MAX_UPSAMPLING))

    def build(self, levels: int) -> HighResolutionAggregator:
        """Build the aggregator."""
        return HighResolutionAggregator(self.upsample)
