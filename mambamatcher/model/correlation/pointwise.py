"""Pointwise convolutions over a correlation map with many levels, as in HCCNet."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from einops import rearrange
from torch import nn

from mambamatcher.model.config import check_bounds, check_length
from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    FLOAT_BYTES,
    MAX_UPSAMPLING,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Upsampled,
    upsampling_bytes,
)
from mambamatcher.ops.upsample4d import upsample4d


class PointwiseAggregator(CorrelationAggregator):
    """Map the positive scores of each position to one score by a small network, then upsample."""

    def __init__(self, levels: int, config: "PointwiseAggregation") -> None:
        super().__init__()
        widths = (levels, *config.hidden, 1)
        self.widest = max(widths)
        self.upsample = config.upsample
        self.convolutions = nn.Sequential()
        for before, after in pairwise(widths):
            convolution = nn.Conv2d(before, after, 1)
            with torch.no_grad():
                convolution.weight.abs_()  # a higher similarity gives a higher score, so an untrained model can match
            self.convolutions.extend([nn.ReLU(), convolution])

    def forward(self, correlation: CorrelationMap) -> Upsampled:
        """Refine a correlation map."""
        rows = rearrange(correlation, "b level hs ws ht wt -> b level (hs ws) (ht wt)")
        return upsample4d(self.convolutions(rows).reshape(len(rows), *correlation.shape[2:]), self.upsample)

    def bytes_per_score(self, levels: int) -> int:
        """Estimate memory per score: what one layer reads and writes, each clipped, and the upsampled map."""
        return 4 * max(levels, self.widest) * FLOAT_BYTES + upsampling_bytes(self.upsample)


@CORRELATION_AGGREGATIONS.register("pointwise")
@dataclass(frozen=True, kw_only=True, slots=True)
class PointwiseAggregation(CorrelationConfig):
    """The head of HCCNet (Kim, Min and Cho, WACV 2024): pointwise convolutions of the hypercolumn correlation.

    No position sees another one. The information is in the levels: the slices of the feature aggregation `sliced`.

    Attributes:
        hidden: Channels of the hidden layers; each ends in a ReLU. The authors published no code, and their sizes were
            not at hand: 128 is ours.
        upsample: Factor by which the refined map is interpolated on every axis.
    """

    hidden: tuple[int, ...] = (128,)
    upsample: int = 2

    def __post_init__(self) -> None:
        check_length("correlation", self, hidden=8)
        check_bounds("correlation", self, hidden=(1, 1024), upsample=(1, MAX_UPSAMPLING))

    def build(self, levels: int) -> PointwiseAggregator:
        """Build the aggregator."""
        return PointwiseAggregator(levels, self)
