"""What a feature aggregator is: multi-level features of both images in, better ones of the same shape out."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.registry import Registry

Features = Float[Tensor, "batch level channel h w"]
SourceFeatures = Float[Tensor, "batch level channel hs ws"]
TargetFeatures = Float[Tensor, "batch level channel ht wt"]


class FeatureAggregator(nn.Module, ABC):
    """Refines the features of a pair."""

    @abstractmethod
    def forward(self, source: SourceFeatures, target: TargetFeatures) -> tuple[SourceFeatures, TargetFeatures]:
        """Refine both images' features."""


class PerImageAggregator(FeatureAggregator):
    """Refines each image without seeing the other, so that its result can be kept and used again."""

    @abstractmethod
    def aggregate(self, features: Features) -> Features:
        """Refine one image's features."""

    def forward(self, source: SourceFeatures, target: TargetFeatures) -> tuple[SourceFeatures, TargetFeatures]:
        """Refine both images' features."""
        return self.aggregate(source), self.aggregate(target)


class FeatureConfig(ABC):
    """A choice of feature aggregation; `build` makes it for features of a given width."""

    __slots__ = ()

    @abstractmethod
    def build(self, channels: int) -> FeatureAggregator:
        """Make the module."""


FEATURE_AGGREGATIONS: Registry[type[FeatureConfig]] = Registry("feature aggregation")
