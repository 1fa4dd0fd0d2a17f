"""HCCNet's feature slicing: the channels of each level, cut into slices that are levels of their own."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds, check_length
from mambamatcher.model.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator


class SlicedAggregator(PerImageAggregator):
    """Cut the channels of every level into slices of equal width. It has no parameters."""

    def __init__(self, width: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.width, self.channels = width, channels

    def per_image(self, features: Features) -> Float[Tensor, "batch slice width h w"]:
        """Return the slices, level by level."""
        levels = zip(features.unbind(dim=1), self.channels, strict=True)
        return torch.cat([level[:, :used].unflatten(1, (-1, self.width)) for level, used in levels], dim=1)


@FEATURE_AGGREGATIONS.register("sliced")
@dataclass(frozen=True, kw_only=True, slots=True)
class SlicedAggregation(FeatureConfig):
    """The feature slicing of HCCNet (Kim, Min and Cho, WACV 2024), for the aggregation `pointwise`. Not in the paper.

    Attributes:
        slices: Slices of the widest level. All slices have the same width.
        channels: Channels of each level, if they differ: a backbone pads narrow levels with zeros, which must not
            become slices.
    """

    slices: int = 2
    channels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_length("features", self, channels=128)
        check_bounds("features", self, slices=(1, 64), channels=(1, 65536))
        for count in self.channels:
            if count * self.slices % max(self.channels):
                raise ConfigError(
                    f"features.slices {self.slices} cuts {max(self.channels)} channels into slices that do not divide "
                    f"the {count} channels of another level; use a number that divides both"
                )

    def levels_after(self, levels: int) -> int:
        """Return the number of slices of all levels."""
        if not self.channels:
            return levels * self.slices
        return sum(count * self.slices // max(self.channels) for count in self.channels)

    def channels_after(self, channels: tuple[int, ...]) -> tuple[int, ...]:
        """Return the width of each slice."""
        return (max(channels) // self.slices,) * self.levels_after(len(channels))

    def build(self, channels: int, levels: int = 1) -> SlicedAggregator:
        """Build the aggregator."""
        of_levels = self.channels or (channels,) * levels
        if len(of_levels) != levels or max(of_levels) != channels:
            raise ConfigError(
                f"features.channels names {len(of_levels)} levels of up to {max(of_levels)} channels, but the backbone "
                f"gives {levels} of {channels}; name the channels of each of its levels, or none if all are equal"
            )
        if channels % self.slices:
            raise ConfigError(f"features.slices {self.slices} does not divide {channels} channels; use a divisor")
        return SlicedAggregator(channels // self.slices, of_levels)
