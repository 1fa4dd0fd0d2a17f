"""The interface of correlation aggregators: a multi-level correlation map in, one refined map out."""

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.registry import Registry

CorrelationMap = Float[Tensor, "batch level hs ws ht wt"]
Refined = Float[Tensor, "batch hs ws ht wt"]
Upsampled = Float[Tensor, "batch refined_hs refined_ws refined_ht refined_wt"]

FLOAT_BYTES = 4
COPIES = 16  # correlation maps that an aggregator holds in intermediate results; measured
MAX_UPSAMPLING = 4  # 256 scores for each one of the correlation map


class CorrelationAggregator(nn.Module, ABC):
    """Base class: refines a correlation map.

    Attributes:
        linear: Whether a refined score is a linear function of the scores of the same position. If so, source
            positions can be blended before refinement, and most of the correlation map need not be computed.
    """

    linear: ClassVar[bool] = False

    @abstractmethod
    def forward(self, correlation: CorrelationMap) -> Refined | Upsampled:
        """Refine a correlation map: combine its levels into one score per pair of positions.

        Some aggregators return a finer grid in both images. Whoever reads the refined map takes the grid from it.
        """

    def bytes_per_score(self, levels: int) -> int:
        """Estimate the memory in bytes that refinement needs per pair of positions, besides the correlation map."""
        return COPIES * levels * FLOAT_BYTES


class CorrelationConfig(ABC):
    """Base class of the configurations of correlation aggregators."""

    __slots__ = ()

    @abstractmethod
    def build(self, levels: int) -> CorrelationAggregator:
        """Build the aggregator for a correlation map with this many levels."""


CORRELATION_AGGREGATIONS: Registry[type[CorrelationConfig]] = Registry("correlation aggregation")


def mean_of_levels(levels: int) -> nn.Linear:
    """Return a projection of all levels to one score. It starts as their mean, so an untrained model can match."""
    project = nn.Linear(levels, 1)
    nn.init.constant_(project.weight, 1.0 / levels)
    nn.init.zeros_(project.bias)
    return project


def upsampling_bytes(factor: int) -> int:
    """Estimate the memory of an upsampled map per pair of positions before: the map, and a copy in another layout."""
    return 2 * factor**4 * FLOAT_BYTES if factor > 1 else 0
