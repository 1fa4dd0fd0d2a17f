"""The interface of feature aggregators: multi-level features of both images in, refined features out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.registry import Registry

Features = Float[Tensor, "batch level channel h w"]
SourceFeatures = Float[Tensor, "batch level channel hs ws"]
TargetFeatures = Float[Tensor, "batch level channel ht wt"]
# Most aggregators keep the number of levels and channels; `fused` changes both.
Aggregated = Float[Tensor, "batch aggregated_level aggregated_channel h w"]
AggregatedSource = Float[Tensor, "batch aggregated_level aggregated_channel hs ws"]
AggregatedTarget = Float[Tensor, "batch aggregated_level aggregated_channel ht wt"]


class FeatureAggregator(nn.Module, ABC):
    """Base class: refines features in two steps, first per image and then per pair.

    Attributes:
        pairwise: Whether the features of an image depend on the other image. If not, they can be cached.
        keep_transformed: Whether weights that were transformed for inference stay in memory.
        as_products: Whether convolutions become matrix products where these are faster in ONNX Runtime.
    """

    pairwise: ClassVar[bool]
    keep_transformed: bool = True
    as_products: bool = False

    @abstractmethod
    def per_image(self, features: Features) -> Aggregated:
        """Apply the per-image part of the aggregation. Pairwise aggregators leave the features unchanged."""

    @abstractmethod
    def per_pair(self, source: AggregatedSource, target: AggregatedTarget) -> tuple[AggregatedSource, AggregatedTarget]:
        """Apply the part that needs both images. Per-image aggregators leave the features unchanged."""

    def forward(self, source: SourceFeatures, target: TargetFeatures) -> tuple[AggregatedSource, AggregatedTarget]:
        """Refine the features of both images."""
        return self.per_pair(self.per_image(source), self.per_image(target))

    def winograd_products(self, grid: tuple[int, int], maps: int) -> int | None:
        """Count the multiplications by Winograd's algorithm, where the aggregator uses it.

        Args:
            grid: Height and width of the feature maps.
            maps: Number of feature maps: images times levels.
        """
        return None

    def working_bytes(self, grid: tuple[int, int], maps: int) -> int:
        """Estimate the temporary memory of one call, in bytes, besides its input and output.

        Args:
            grid: Height and width of the feature maps.
            maps: Number of feature maps: images times levels.
        """
        return 0

    def kept_bytes(self, grid: tuple[int, int]) -> int:
        """Estimate the memory in bytes that the first call at this grid size allocates and keeps."""
        return 0


class PerImageAggregator(FeatureAggregator):
    """Base class of aggregators that refine each image independently."""

    pairwise = False

    def per_pair(self, source: AggregatedSource, target: AggregatedTarget) -> tuple[AggregatedSource, AggregatedTarget]:
        """Return the features unchanged."""
        return source, target


class PairwiseAggregator(FeatureAggregator):
    """Base class of aggregators whose result for one image depends on the other image."""

    pairwise = True

    def per_image(self, features: Features) -> Features:
        """Return the features unchanged."""
        return features


class FeatureConfig(ABC):
    """Base class of the configurations of feature aggregators."""

    __slots__ = ()

    def levels_after(self, levels: int) -> int:
        """Return the number of levels after aggregation."""
        return levels

    def channels_after(self, channels: tuple[int, ...]) -> tuple[int, ...]:
        """Return the channels of each level after aggregation. Most fill the zeros that pad narrower levels."""
        return (max(channels),) * self.levels_after(len(channels))

    @abstractmethod
    def build(self, channels: int, levels: int = 1) -> FeatureAggregator:
        """Build the aggregator for this many levels of this many channels."""


FEATURE_AGGREGATIONS: Registry[type[FeatureConfig]] = Registry("feature aggregation")


class IdentityAggregator(PerImageAggregator):
    """Returns the backbone's features unchanged."""

    def per_image(self, features: Features) -> Features:
        """Return the features unchanged."""
        return features


@FEATURE_AGGREGATIONS.register("none")
@dataclass(frozen=True, kw_only=True, slots=True)
class NoAggregation(FeatureConfig):
    """Row "None" of the paper's feature table."""

    def channels_after(self, channels: tuple[int, ...]) -> tuple[int, ...]:
        """Return the channels unchanged."""
        return channels

    def build(self, channels: int, levels: int = 1) -> IdentityAggregator:
        """Build the aggregator."""
        return IdentityAggregator()
