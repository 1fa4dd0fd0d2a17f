"""The interface of correlation aggregators: a multi-level correlation map in, one refined map out."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.model.frames import Grid
from mambamatcher.registry import Registry

SourceFeatures = Float[Tensor, "batch level channel hs ws"]
TargetFeatures = Float[Tensor, "batch level channel ht wt"]
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

    def refine_pair(
        self, correlation: CorrelationMap, source: SourceFeatures, target: TargetFeatures
    ) -> Refined | Upsampled:
        """Refine a correlation map, given the features it was computed from. Most aggregators need the map only."""
        return self(correlation)

    def bytes_per_score(self, levels: int) -> int:
        """Estimate the memory in bytes that refinement needs per pair of positions, besides the correlation map."""
        return COPIES * levels * FLOAT_BYTES


class AppearanceAggregator(CorrelationAggregator):
    """Base class of aggregators that also see the features of both images; they are called by `refine_pair`."""

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refuse a correlation map alone."""
        raise InputError(f"{type(self).__name__} needs the features of both images besides the map; call refine_pair")

    @abstractmethod
    def refine_pair(self, correlation: CorrelationMap, source: SourceFeatures, target: TargetFeatures) -> Refined:
        """Refine a correlation map, given the features it was computed from."""


class FeatureShape(NamedTuple):
    """What an aggregator is built for.

    Attributes:
        channels: Channels of each level; the rest of a narrower level is zero.
        grid: Height and width of the feature maps at the model's own side.
    """

    channels: tuple[int, ...]
    grid: Grid


class CorrelationConfig(ABC):
    """Base class of the configurations of correlation aggregators."""

    __slots__ = ()

    @abstractmethod
    def build(self, levels: int) -> CorrelationAggregator:
        """Build the aggregator for a correlation map with this many levels."""

    def build_for(self, features: FeatureShape) -> CorrelationAggregator:
        """Build the aggregator for features of this shape. Most need to know the number of levels only."""
        return self.build(len(features.channels))


class ShapedConfig(CorrelationConfig):
    """Base class of the configurations of aggregators whose weights depend on the channels or the grid."""

    __slots__ = ()

    def build(self, levels: int) -> CorrelationAggregator:
        """Refuse a number of levels alone."""
        raise ConfigError(f"{type(self).__name__} depends on the shape of the features; call build_for")

    @abstractmethod
    def build_for(self, features: FeatureShape) -> CorrelationAggregator:
        """Build the aggregator for features of this shape."""


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


def check_grid(name: str, correlation: CorrelationMap, grid: Grid) -> None:
    """Refuse a map of another grid than the one that an aggregator was built for; `name` is the aggregator's."""
    hs, ws, ht, wt = correlation.shape[2:]
    if (hs, ws) != grid or (ht, wt) != grid:
        raise InputError(
            f"this {name} head was built for a {grid[0]}x{grid[1]} grid in both images, got {hs}x{ws} and {ht}x{wt}; "
            f"build the model with the side of these images"
        )
