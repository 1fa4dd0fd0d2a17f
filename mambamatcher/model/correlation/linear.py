"""Aggregators that treat every position independently: the mean of the levels, and a learnt weighted sum."""

from dataclasses import dataclass

from einops import rearrange

from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Refined,
    mean_of_levels,
)


class MeanAggregator(CorrelationAggregator):
    """Average the levels; no parameters."""

    linear = True

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        return correlation.mean(dim=1)


@CORRELATION_AGGREGATIONS.register("mean")
@dataclass(frozen=True, kw_only=True, slots=True)
class MeanAggregation(CorrelationConfig):
    """The nearest-neighbour baseline."""

    def build(self, levels: int) -> MeanAggregator:
        """Build the aggregator."""
        return MeanAggregator()


class LinearAggregator(CorrelationAggregator):
    """Project the levels of each position to one score."""

    linear = True

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.project = mean_of_levels(levels)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        # nn.Linear would need the levels last, and that transpose costs more than the sum itself
        summed = self.project.weight @ rearrange(correlation, "b level hs ws ht wt -> b level (hs ws ht wt)")
        return (summed.squeeze(1) + self.project.bias).unflatten(1, correlation.shape[2:])


@CORRELATION_AGGREGATIONS.register("linear")
@dataclass(frozen=True, kw_only=True, slots=True)
class LinearAggregation(CorrelationConfig):
    """The linear projection used in the paper's facet, layer and feature tables."""

    def build(self, levels: int) -> LinearAggregator:
        """Build the aggregator."""
        return LinearAggregator(levels)
