"""MambaMatcher: images and source points in, target points out (Sec. 4)."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.model.backbones import BACKBONES, BackboneConfig, VitConfig
from mambamatcher.model.config import check_bounds, choice
from mambamatcher.model.correlation import (
    CORRELATION_AGGREGATIONS,
    EPSILON,
    AppearanceAggregator,
    CorrelationConfig,
    FeatureShape,
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
from mambamatcher.model.transfer import blend_rows, transfer_points
from mambamatcher.model.transfer_settings import Transfer

Images = Float[Tensor, "batch 3 height width"]
MAX_SIDE = 4096  # ten times the paper's; memory grows with the fourth power


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Configuration of a model. The defaults are the paper's; each part can be any entry of its registry.

    Attributes:
        side: Side length in pixels of the square to which images are resized.
        mirror: Whether to average the similarities of the images and of their mirror images at inference.
        backbone: Feature extractor.
        features: Feature aggregation.
        correlation: Aggregation of the correlation map.
        transfer: How target points are read from the refined map.
    """

    side: int = 420
    mirror: bool = False
    backbone: BackboneConfig = choice(BACKBONES, default_factory=VitConfig)
    features: FeatureConfig = choice(FEATURE_AGGREGATIONS, default_factory=ConvAggregation)
    correlation: CorrelationConfig = choice(CORRELATION_AGGREGATIONS, default_factory=SimilarityScanAggregation)
    transfer: Transfer = field(default_factory=Transfer)

    def __post_init__(self) -> None:
        check_bounds("", self, side=(1, MAX_SIDE))


class MambaMatcher(nn.Module):
    """The model as an `nn.Module`: images in [0, 1] and points in the unit frame in, points in the unit frame out.

    A match takes three steps: `encode` (everything that depends on one image), `correlate` (everything that needs both
    images) and `transfer` (target points). `forward` runs all three.

    Example:
        >>> from mambamatcher.model import presets
        >>> model = MambaMatcher(presets.tiny()).eval()
        >>> images = torch.rand(2, 1, 3, 84, 84)
        >>> model(images[0], images[1], torch.zeros(1, 5, 2)).shape
        torch.Size([1, 5, 2])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = config.backbone.build()
        check_side(config.side, self.backbone.stride)
        levels = len(self.backbone.level_channels)
        self.features = config.features.build(self.backbone.channels, levels)
        if config.mirror and self.features.pairwise:
            raise ConfigError(
                "mirror=true needs a per-image feature aggregation; set mirror=false or another features.kind"
            )
        self.level_channels = config.features.channels_after(self.backbone.used_channels)
        positions = config.side // self.backbone.stride
        self.correlation = config.correlation.build_for(FeatureShape(self.level_channels, (positions, positions)))
        if config.mirror and isinstance(self.correlation, AppearanceAggregator):
            raise ConfigError(
                "mirror=true doubles the channels of the features, and this aggregation projects them; set mirror=false"
            )

    @property
    def linear(self) -> bool:
        """Whether scores are a linear function of the similarities of each image's own features.

        Then each row of the correlation map can be computed alone, and the map is the same from both sides.
        """
        return self.correlation.linear and not self.features.pairwise

    def encode(self, images: Images) -> Aggregated:
        """Compute everything that depends on one image only. The result can be cached and correlated with many images.

        With `mirror`, the features have twice the channels at inference: the normalised features of both views are
        concatenated, so that the cosine similarity of two positions is the mean of the similarities of both views.

        Args:
            images: RGB in [0, 1]; height and width are multiples of the backbone's stride.

        Returns:
            Aggregated features.

        Raises:
            InputError: The images have a wrong shape or type.
        """
        if not self.config.mirror or self.training:
            return self.features.per_image(self.backbone(images))
        both = self.features.per_image(self.backbone(torch.cat([images, images.flip(3)])))
        plain, mirrored = both.unflatten(0, (2, -1)).unbind()
        return torch.cat([F.normalize(view, dim=2, eps=EPSILON) for view in (plain, mirrored.flip(4))], dim=2)

    def correlate(
        self, source: Float[Tensor, "batch level channel hs ws"], target: Float[Tensor, "batch level channel ht wt"]
    ) -> Float[Tensor, "batch refined_hs refined_ws refined_ht refined_wt"]:
        """Compute the refined correlation map of pairs of encoded images. Its grid may be finer than the features'."""
        features = self.features.per_pair(source, target)
        return self.correlation.refine_pair(correlation_map(*features), *features)

    def correlate_at(
        self,
        encoded: Float[Tensor, "image level channel h w"],
        source: Int[Tensor, " batch"],
        target: Int[Tensor, " batch"],
        weights: Float[Tensor, "batch keypoint source_position"],
    ) -> Float[Tensor, "batch keypoint refined_ht refined_wt"]:
        """Compute weighted sums of refined scores over source positions.

        A linear aggregation is applied after the blending; then most of the correlation map is never computed.

        Args:
            encoded: Encoded images, each image once.
            source: Index of the source image of each pair.
            target: Index of the target image of each pair.
            weights: Weight of every source position for each keypoint. For an aggregation that upsamples, these are
                the positions of the refined map.

        Returns:
            Blended scores of each keypoint with every target position.
        """
        if self.linear:
            return self.correlation(blended_correlation(encoded, source, target, weights)).squeeze(2)
        return blend_rows(self.correlate(encoded[source], encoded[target]), weights)

    def transfer(
        self, refined: Float[Tensor, "batch hs ws ht wt"], points: Float[Tensor, "batch keypoint 2"]
    ) -> Float[Tensor, "batch keypoint 2"]:
        """Transfer source points to the target image; both are in the unit frame of their image."""
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
            present: Which points exist, where pairs have different numbers of points. The others may have any value
                and are replaced by the centre of the image.

        Returns:
            Target points in the unit frame.

        Raises:
            InputError: Shapes do not match, there are no points, or a point is outside the unit frame.
        """
        points = _checked(points, present, len(source_images), len(target_images))
        return self.transfer(self.correlate(self.encode(source_images), self.encode(target_images)), points)


def _checked(
    points: Float[Tensor, "..."], present: Bool[Tensor, "..."] | None, sources: int, targets: int
) -> Float[Tensor, "batch keypoint 2"]:
    """Return the points, absent ones replaced by the centre, or raise an InputError."""
    if points.ndim != 3 or points.shape[-1] != 2 or not len(points) == sources == targets:
        raise InputError(
            f"points must have shape (batch, keypoint, 2) with the batch of the images, got {tuple(points.shape)} "
            f"for {sources} source and {targets} target images"
        )
    if present is not None and present.shape != points.shape[:2]:
        raise InputError(f"present must have shape {tuple(points.shape[:2])} as the points, got {tuple(present.shape)}")
    if points.shape[1] == 0:
        raise InputError("there are no points to transfer; give at least one point per pair")
    if present is not None:
        points = points.where(present[..., None], 0.0)
    if not bool(((points >= -1) & (points <= 1)).all()):
        worst = points.detach().abs().max().item()
        raise InputError(f"points must lie in the unit frame [-1, 1], got a coordinate with absolute value {worst:.3g}")
    return points


def check_side(side: int, stride: int) -> None:
    """Refuse an image side that a backbone of this stride cannot divide into patches."""
    if side % stride:
        nearest = max(1, round(side / stride)) * stride
        raise ConfigError(f"side {side} does not divide into patches of {stride}; use {nearest}")


def count_parameters(module: nn.Module) -> int:
    """Count the parameters of a module, trainable or not.

    Example:
        >>> count_parameters(nn.Linear(3, 2))
        8
    """
    return sum(parameter.numel() for parameter in module.parameters())
