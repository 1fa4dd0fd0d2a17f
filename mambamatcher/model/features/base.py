"""What a feature aggregator is: multi-level features of both images in, better ones out."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.registry import Registry

Features = Float[Tensor, "batch level channel h w"]
SourceFeatures = Float[Tensor, "batch level channel hs ws"]
TargetFeatures = Float[Tensor, "batch level channel ht wt"]
# most aggregators keep the number of levels and channels
Aggregated = Float[Tensor, "batch aggregated_level aggregated_channel h w"]
AggregatedSource = Float[Tensor, "batch aggregated_level aggregated_channel hs ws"]
AggregatedTarget = Float[Tensor, "batch aggregated_level aggregated_channel ht wt"]


class FeatureAggregator(nn.Module, ABC):
    """Refines the features of a pair."""

    @abstractmethod
    def forward(self, source: SourceFeatures, target: TargetFeatures) -> tuple[AggregatedSource, AggregatedTarget]:
        """Refine both images' features."""


class PerImageAggregator(FeatureAggregator):
    """Refines each image without seeing the other, so that its result can be kept and used again."""

    @abstractmethod
    def aggregate(self, features: Features) -> Aggregated:
        """Refine one image's features."""

    def forward(self, source: SourceFeatures, target: TargetFeatures) -> tuple[AggregatedSource, AggregatedTarget]:
        """Refine both images' features."""
        return self.aggregate(source), self.aggregate(target)


class FeatureConfig(ABC):
    """A choice of feature aggregation; `build` makes it for a number of levels of a given width."""

    __slots__ = ()

    def levels_after(self, levels: int) -> int:
        """Return how many levels are left after aggregation."""
        return levels

    @abstractmethod
    def build(self, channels: int, levels: int = 1) -> FeatureAggregator:
        """Make the module."""


FEATURE_AGGREGATIONS: Registry[type[FeatureConfig]] = Registry("feature aggregation")
