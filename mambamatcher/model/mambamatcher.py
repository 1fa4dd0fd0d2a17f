"""MambaMatcher, whole: images and source points in, target points out (Sec. 4)."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.model.backbones import BACKBONES, BackboneConfig, VitConfig
from mambamatcher.model.config import choice
from mambamatcher.model.correlation import (
    CORRELATION_AGGREGATIONS,
    EPSILON,
    CorrelationConfig,
    Linear,
    SimilarityScanAggregation,
    blended_correlation,
    correlation_map,
)
from mambamatcher.model.features import (
    FEATURE_AGGREGATIONS,
    Aggregated,
    ConvAggregation,
    FeatureConfig,
    PerImageAggregator,
)
from mambamatcher.model.transfer import Transfer, blend_rows, transfer_points

Images = Float[Tensor, "batch 3 height width"]
Features = Float[Tensor, "batch level channel h w"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The paper's model; each part can be exchanged for any of its registry."""

    side: int = 420  # images are resized to this square before the model sees them
    mirror: bool = False  # for inference, see each image in a mirror too, and take the mean of both similarities
    backbone: BackboneConfig = choice(BACKBONES, default_factory=VitConfig)
    features: FeatureConfig = choice(FEATURE_AGGREGATIONS, default_factory=ConvAggregation)
    correlation: CorrelationConfig = choice(CORRELATION_AGGREGATIONS, default_factory=SimilarityScanAggregation)
    transfer: Transfer = field(default_factory=Transfer)

    def __post_init__(self) -> None:
        if self.side < 1:
            raise ConfigError(f"side must be positive, got {self.side}")


class MambaMatcher(nn.Module):
    """The model sees only tensors: images in [0, 1], points in the unit frame."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = config.backbone.build()
        if config.side % self.backbone.stride:
            nearest = max(1, round(config.side / self.backbone.stride)) * self.backbone.stride
            raise ConfigError(
                f"side {config.side} does not divide into patches of {self.backbone.stride}; use {nearest}"
            )
        levels = len(self.backbone.level_channels)
        self.features = config.features.build(self.backbone.channels, levels)
        if config.mirror and not isinstance(self.features, PerImageAggregator):
            raise ConfigError("mirror=true needs an aggregation of each image's own features, not one of the pair's")
        self.correlation = config.correlation.build(config.features.levels_after(levels))

    def extract(self, images: Images) -> Features:
        """Compute the backbone's multi-level features."""
        return self.backbone(images)

    def refine(
        self, source: Float[Tensor, "batch level channel hs ws"], target: Float[Tensor, "batch level channel ht wt"]
    ) -> Float[Tensor, "batch hs ws ht wt"]:
        """Aggregate both images' features, correlate them and refine the correlation map."""
        source, target = self.features(source, target)
        return self.correlation(correlation_map(source, target))

    def describe(self, images: Images) -> Features:
        """Compute all that does not depend on the other image, to be kept and compared with many.

        Seen in a mirror too, a position has twice the channels: both views' directions side by side, since the cosine
        similarity of two such pairs is the mean of the two.
        """
        if not self.config.mirror or self.training:
            return self.aggregate(self.extract(images))
        both = self.aggregate(self.extract(torch.cat([images, images.flip(3)])))
        seen, mirrored = both.unflatten(0, (2, -1)).unbind()
        return torch.cat([F.normalize(view, dim=2, eps=EPSILON) for view in (seen, mirrored.flip(4))], dim=2)

    def aggregate(self, features: Features) -> Aggregated:
        """Do to the backbone's features what of the aggregation does not depend on the other image."""
        return self.features.aggregate(features) if isinstance(self.features, PerImageAggregator) else features

    def compare(
        self, source: Float[Tensor, "batch level channel hs ws"], target: Float[Tensor, "batch level channel ht wt"]
    ) -> Float[Tensor, "batch hs ws ht wt"]:
        """Do to what `describe` returned the rest of `refine`."""
        if isinstance(self.features, PerImageAggregator):
            return self.correlation(correlation_map(source, target))
        return self.refine(source, target)

    def scores_at(
        self,
        described: Float[Tensor, "image level channel h w"],
        source: Int[Tensor, " batch"],
        target: Int[Tensor, " batch"],
        weights: Float[Tensor, "batch keypoint source_position"],
    ) -> Float[Tensor, "batch keypoint h w"]:
        """Blend the refined scores of source positions, for some pairs of described images.

        A linear aggregation may be blended before it is applied, which spares nearly the whole correlation map.
        """
        if isinstance(self.correlation, Linear) and isinstance(self.features, PerImageAggregator):
            return self.correlation(blended_correlation(described, source, target, weights)).squeeze(2)
        return blend_rows(self.compare(described[source], described[target]), weights)

    def forward(
        self,
        source_images: Float[Tensor, "batch 3 source_height source_width"],
        target_images: Float[Tensor, "batch 3 target_height target_width"],
        points: Float[Tensor, "batch keypoint 2"],
        present: Bool[Tensor, "batch keypoint"] | None = None,
    ) -> Float[Tensor, "batch keypoint 2"]:
        """Carry source points to the target images.

        Pairs may have different numbers of points: `present` marks the real ones, and whatever stands in the other
        places is carried along as the image's centre.
        """
        if points.ndim != 3 or points.shape[-1] != 2 or not len(points) == len(source_images) == len(target_images):
            raise InputError(
                f"points must have shape (batch, keypoint, 2) with the batch of the images, got {tuple(points.shape)} "
                f"for {len(source_images)} source and {len(target_images)} target images"
            )
        if present is not None and present.shape != points.shape[:2]:
            raise InputError(
                f"present must have shape {tuple(points.shape[:2])} as the points, got {tuple(present.shape)}"
            )
        if points.shape[1] == 0:
            raise InputError("there are no points to transfer; give at least one per batch")
        if present is not None:
            points = points.where(present[..., None], 0.0)
        if not bool(((points >= -1) & (points <= 1)).all()):
            worst = points.detach().abs().max().item()
            raise InputError(f"points must lie in the unit frame [-1, 1], got a coordinate of size {worst:.3g}")
        refined = self.compare(self.describe(source_images), self.describe(target_images))
        radius = self.config.transfer.training_radius if self.training else self.config.transfer.radius
        return transfer_points(refined, points, self.config.transfer, radius)


def count_parameters(module: nn.Module) -> int:
    """Count a module's parameters, trained or not."""
    return sum(parameter.numel() for parameter in module.parameters())


def build_untrained(config: ModelConfig) -> MambaMatcher:
    """Make a model without allocating or loading any weights, to look at its shape and size."""
    with torch.device("meta"):
        return MambaMatcher(config)
