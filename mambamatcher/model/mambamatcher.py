"""MambaMatcher: images and source points in, target points out (Sec. 4)."""

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
    SimilarityScanAggregation,
    blended_correlation,
    correlation_map,
)
from mambamatcher.model.features import (
    FEATURE_AGGREGATIONS,
    Aggregated,
    ConvAggregation,
    FeatureConfig,
)
from mambamatcher.model.transfer import Transfer, blend_rows, transfer_points

Images = Float[Tensor, "batch 3 height width"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The paper's model; each part can be replaced by any entry of its registry."""

    side: int = 420  # images are resized to this square before the model sees them
    mirror: bool = False  # at inference, average the similarities of the image and its mirror image
    backbone: BackboneConfig = choice(BACKBONES, default_factory=VitConfig)
    features: FeatureConfig = choice(FEATURE_AGGREGATIONS, default_factory=ConvAggregation)
    correlation: CorrelationConfig = choice(CORRELATION_AGGREGATIONS, default_factory=SimilarityScanAggregation)
    transfer: Transfer = field(default_factory=Transfer)

    def __post_init__(self) -> None:
        if self.side < 1:
            raise ConfigError(f"side must be positive, got {self.side}")


class MambaMatcher(nn.Module):
    """The model sees only tensors: images in [0, 1], points in the unit frame.

    Three steps make a match: `encode` (what depends on one image), `correlate` (what needs both) and `transfer`.
    """

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
        if config.mirror and self.features.pairwise:
            raise ConfigError("mirror=true needs an aggregation of each image's own features, not one of the pair's")
        self.correlation = config.correlation.build(config.features.levels_after(levels))

    def encode(self, images: Images) -> Aggregated:
        """Compute everything that depends on one image alone; it can be kept and correlated with many others.

        With `mirror`, a position has twice the channels at inference: the directions of both views side by side, since
        the cosine similarity of two such positions is the mean of the two similarities.

        Args:
            images: RGB in [0, 1], with sides that are multiples of the backbone's stride.
        """
        if not self.config.mirror or self.training:
            return self.features.per_image(self.backbone(images))
        both = self.features.per_image(self.backbone(torch.cat([images, images.flip(3)])))
        plain, mirrored = both.unflatten(0, (2, -1)).unbind()
        return torch.cat([F.normalize(view, dim=2, eps=EPSILON) for view in (plain, mirrored.flip(4))], dim=2)

    def correlate(
        self, source: Float[Tensor, "batch level channel hs ws"], target: Float[Tensor, "batch level channel ht wt"]
    ) -> Float[Tensor, "batch hs ws ht wt"]:
        """Compute the refined correlation map of pairs of encoded images."""
        return self.correlation(correlation_map(*self.features.per_pair(source, target)))

    def correlate_at(
        self,
        encoded: Float[Tensor, "image level channel h w"],
        source: Int[Tensor, " batch"],
        target: Int[Tensor, " batch"],
        weights: Float[Tensor, "batch keypoint source_position"],
    ) -> Float[Tensor, "batch keypoint h w"]:
        """Blend the refined scores of source positions.

        Where the aggregation is linear it is applied to blended scores, which spares nearly the whole correlation map.

        Args:
            encoded: Encoded images, each once.
            source: Index of each pair's source image.
            target: Index of each pair's target image.
            weights: Weight of every source position for each keypoint.
        """
        if self.correlation.linear and not self.features.pairwise:
            return self.correlation(blended_correlation(encoded, source, target, weights)).squeeze(2)
        return blend_rows(self.correlate(encoded[source], encoded[target]), weights)

    def transfer(
        self, refined: Float[Tensor, "batch hs ws ht wt"], points: Float[Tensor, "batch keypoint 2"]
    ) -> Float[Tensor, "batch keypoint 2"]:
        """Transfer source points to the target, both in the unit frame of their image."""
        settings = self.config.transfer
        return transfer_points(refined, points, settings, settings.training_radius if self.training else None)

    def forward(
        self,
        source_images: Float[Tensor, "batch 3 source_height source_width"],
        target_images: Float[Tensor, "batch 3 target_height target_width"],
        points: Float[Tensor, "batch keypoint 2"],
        present: Bool[Tensor, "batch keypoint"] | None = None,
    ) -> Float[Tensor, "batch keypoint 2"]:
        """Transfer source points to the target images: encode, correlate, transfer.

        Args:
            source_images: RGB in [0, 1].
            target_images: RGB in [0, 1].
            points: Source points in the unit frame.
            present: Marks the real points, where pairs have different numbers of them. Any value may stand for the
                others; it is treated as the centre of the image.

        Returns:
            Target points in the unit frame.

        Raises:
            InputError: Shapes that do not fit together, no points, or points outside the unit frame.
        """
        points = _checked(points, present, len(source_images), len(target_images))
        return self.transfer(self.correlate(self.encode(source_images), self.encode(target_images)), points)


def _checked(
    points: Float[Tensor, "..."], present: Bool[Tensor, "..."] | None, sources: int, targets: int
) -> Float[Tensor, "batch keypoint 2"]:
    """Return the points with absent ones at the centre, or refuse them."""
    if points.ndim != 3 or points.shape[-1] != 2 or not len(points) == sources == targets:
        raise InputError(
            f"points must have shape (batch, keypoint, 2) with the batch of the images, got {tuple(points.shape)} "
            f"for {sources} source and {targets} target images"
        )
    if present is not None and present.shape != points.shape[:2]:
        raise InputError(f"present must have shape {tuple(points.shape[:2])} as the points, got {tuple(present.shape)}")
    if points.shape[1] == 0:
        raise InputError("there are no points to transfer; give at least one per batch")
    if present is not None:
        points = points.where(present[..., None], 0.0)
    if not bool(((points >= -1) & (points <= 1)).all()):
        worst = points.detach().abs().max().item()
        raise InputError(f"points must lie in the unit frame [-1, 1], got a coordinate of size {worst:.3g}")
    return points


def count_parameters(module: nn.Module) -> int:
    """Count a module's parameters, trainable or not."""
    return sum(parameter.numel() for parameter in module.parameters())


def build_untrained(config: ModelConfig) -> MambaMatcher:
    """Make a model on the meta device, without allocating or loading weights."""
    with torch.device("meta"):
        return MambaMatcher(config)
