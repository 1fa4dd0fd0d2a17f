"""Aggregators that look at one position at a time: the mean of the levels, and a learnt sum of them."""

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


class Mean(CorrelationAggregator):
    """Average the levels; there is nothing to learn."""

    linear = True

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        return correlation.mean(dim=1)


@CORRELATION_AGGREGATIONS.register("mean")
@dataclass(frozen=True, kw_only=True, slots=True)
class MeanAggregation(CorrelationConfig):
    """The nearest-neighbour baseline."""

    def build(self, levels: int) -> Mean:
        """Make the module."""
        return Mean()


class Linear(CorrelationAggregator):
    """Project the levels of each position onto one."""

    linear = True

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.project = mean_of_levels(levels)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        # a product that reads the levels in place: moving them next to each other would cost more than the sum
        summed = self.project.weight @ rearrange(correlation, "b level hs ws ht wt -> b level (hs ws ht wt)")
        return (summed.squeeze(1) + self.project.bias).unflatten(1, correlation.shape[2:])


@CORRELATION_AGGREGATIONS.register("linear")
@dataclass(frozen=True, kw_only=True, slots=True)
class LinearAggregation(CorrelationConfig):
    """The linear projection of the paper's facet, layer and feature tables."""

    def build(self, levels: int) -> Linear:
        """Make the module."""
        return Linear(levels)
