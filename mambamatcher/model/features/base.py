"""What a feature aggregator is: multi-level features of both images in, better ones out."""

from abc import ABC, abstractmethod
from typing import ClassVar

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
    """Refines the features of a pair in two steps: each image by itself, then both together.

    Attributes:
        pairwise: Whether an image's features depend on the other image. If not, they can be kept and used again.
        keep_transformed: Whether weights that were transformed for inference stay in memory.
    """

    pairwise: ClassVar[bool]
    keep_transformed: bool = True

    @abstractmethod
    def per_image(self, features: Features) -> Aggregated:
        """Apply the part that sees one image. Pairwise aggregators leave the features unchanged."""

    @abstractmethod
    def per_pair(self, source: AggregatedSource, target: AggregatedTarget) -> tuple[AggregatedSource, AggregatedTarget]:
        """Apply the part that sees both images. Other aggregators leave the features unchanged."""

    def forward(self, source: SourceFeatures, target: TargetFeatures) -> tuple[AggregatedSource, AggregatedTarget]:
        """Refine both images' features."""
        return self.per_pair(self.per_image(source), self.per_image(target))

    def working_bytes(self, grid: tuple[int, int], maps: int) -> int:
        """Estimate the memory that aggregating this many maps takes beyond its input and output."""
        return 0

    def kept_bytes(self, grid: tuple[int, int]) -> int:
        """Estimate the memory that the first use at this grid takes and keeps."""
        return 0


class PerImageAggregator(FeatureAggregator):
    """Refines each image without seeing the other."""

    pairwise = False

    def per_pair(self, source: AggregatedSource, target: AggregatedTarget) -> tuple[AggregatedSource, AggregatedTarget]:
        """Return the features as they are."""
        return source, target


class PairwiseAggregator(FeatureAggregator):
    """Refines each image with the other one in view."""

    pairwise = True

    def per_image(self, features: Features) -> Features:
        """Return the features as they are."""
        return features


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
