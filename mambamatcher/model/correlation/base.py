"""What a correlation aggregator is: a multi-level correlation map in, one refined map out."""

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.registry import Registry

CorrelationMap = Float[Tensor, "batch level hs ws ht wt"]
Refined = Float[Tensor, "batch hs ws ht wt"]

FLOAT_BYTES = 4
COPIES = 16  # of the correlation map, in an aggregator that stores what lies between its steps; measured


class CorrelationAggregator(nn.Module, ABC):
    """Refines a correlation map.

    Attributes:
        linear: Whether a refined score is a linear function of that position's own scores. Scores of some source
            positions can then be blended before refinement, which spares nearly the whole correlation map.
    """

    linear: ClassVar[bool] = False

    @abstractmethod
    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""

    def bytes_per_score(self, levels: int) -> int:
        """Estimate the memory that refinement takes per position of the correlation map, beyond the map."""
        return COPIES * levels * FLOAT_BYTES


class CorrelationConfig(ABC):
    """A choice of correlation aggregation."""

    __slots__ = ()

    @abstractmethod
    def build(self, levels: int) -> CorrelationAggregator:
        """Make the module."""


CORRELATION_AGGREGATIONS: Registry[type[CorrelationConfig]] = Registry("correlation aggregation")


def mean_of_levels(levels: int) -> nn.Linear:
    """Return a projection of all levels onto one, initialised as their mean: an untrained model then still matches."""
    project = nn.Linear(levels, 1)
    nn.init.constant_(project.weight, 1.0 / levels)
    nn.init.zeros_(project.bias)
    return project
