"""Self-attention within each image, optionally followed by cross-attention to the other image."""

from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from mambamatcher.errors import ConfigError
from mambamatcher.model.features.base import (
    FEATURE_AGGREGATIONS,
    FeatureAggregator,
    FeatureConfig,
    Features,
    PairwiseAggregator,
    PerImageAggregator,
    SourceFeatures,
    TargetFeatures,
)
from mambamatcher.model.layers.attention import AttentionBlock

Tokens = Float[Tensor, "batch_level position channel"]


def to_tokens(features: Features) -> Tokens:
    """Turn each level into a sequence of its positions; attention does not mix levels."""
    return rearrange(features, "b level c h w -> (b level) (h w) c")


def to_maps(tokens: Tokens, like: Features) -> Features:
    """Undo `to_tokens`; `like` has the shape of the result."""
    _, level, _, h, _ = like.shape
    return rearrange(tokens, "(b level) (h w) c -> b level c h w", level=level, h=h)


class SelfAttentionAggregator(PerImageAggregator):
    """One transformer block shared by all levels."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.block = AttentionBlock(channels, heads)

    def per_image(self, features: Features) -> Features:
        """Let the positions of each level attend to each other."""
        tokens = to_tokens(features)
        return to_maps(self.block(tokens, tokens), features)


class CrossAttentionAggregator(PairwiseAggregator):
    """Self-attention, then cross-attention to the same level of the other image."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.within = AttentionBlock(channels, heads)
        self.across = AttentionBlock(channels, heads)

    def per_pair(self, source: SourceFeatures, target: TargetFeatures) -> tuple[SourceFeatures, TargetFeatures]:
        """Apply self-attention and then cross-attention in both directions."""
        s, t = to_tokens(source), to_tokens(target)
        s, t = self.within(s, s), self.within(t, t)
        return to_maps(self.across(s, t), source), to_maps(self.across(t, s), target)


@FEATURE_AGGREGATIONS.register("attention")
@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionAggregation(FeatureConfig):
    """Rows "Self-attn" and "+ Cross-attn." of the paper's feature table; there is one head per 64 channels.

    Attributes:
        cross: Whether to add cross-attention.
    """

    cross: bool = False

    def build(self, channels: int, levels: int = 1) -> FeatureAggregator:
        """Build the aggregator."""
        heads = max(1, channels // 64)
        if channels % heads:
            raise ConfigError(f"attention with {heads} heads needs a multiple of {heads} channels, got {channels}")
        return (CrossAttentionAggregator if self.cross else SelfAttentionAggregator)(channels, heads)
