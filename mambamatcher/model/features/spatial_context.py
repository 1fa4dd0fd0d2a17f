"""SCorrSAN's spatial context encoder: each feature with its similarities to its neighbours, projected."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds
from mambamatcher.model.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator

LINES = 4  # the two diagonals, the column and the row through a position


class SpatialContextAggregator(PerImageAggregator):
    """Append the cosine similarities with the neighbours on four lines, then project; each level has a projection."""

    def __init__(self, channels: int, levels: int, config: "SpatialContextAggregation") -> None:
        super().__init__()
        size = config.kernel_size
        middle = [size // 2] * size
        forwards = list(range(size))
        # (row, column) in the window around a position: diagonal, column, other diagonal, row
        self.offsets = [
            *zip(forwards, forwards, strict=True),
            *zip(forwards, middle, strict=True),
            *zip(forwards, reversed(forwards), strict=True),
            *zip(middle, forwards, strict=True),
        ]
        self.reach = size // 2
        self.project = nn.ModuleList(nn.Conv2d(channels + LINES * size, config.width, 1) for _ in range(levels))

    def per_image(self, features: Features) -> Float[Tensor, "batch level width h w"]:
        """Encode every level."""
        context = self.context(features)
        encoded = [
            F.relu(project(torch.cat([features[:, level], context[:, level]], dim=1)))
            for level, project in enumerate(self.project)
        ]
        return torch.stack(encoded, dim=1)

    def context(self, features: Features) -> Float[Tensor, "batch level neighbour h w"]:
        """Return the cosine similarities of each position with its neighbours; there are none outside the image."""
        h, w = features.shape[-2:]
        normalised = F.normalize(features, dim=2)
        padded = F.pad(normalised, (self.reach,) * 4)
        shifted = (padded[..., row : row + h, column : column + w] for row, column in self.offsets)
        return torch.stack([(normalised * each).sum(dim=2) for each in shifted], dim=2)


@FEATURE_AGGREGATIONS.register("spatial_context")
@dataclass(frozen=True, kw_only=True, slots=True)
class SpatialContextAggregation(FeatureConfig):
    """The features of SCorrSAN (Huang et al., ECCV 2022), in its efficient form. Not in the paper.

    On its one level of 1,024 channels it has 2,156,544 parameters. More levels have an encoder each, which is not in
    the publication.

    Attributes:
        kernel_size: Odd side of the window whose diagonals, middle row and middle column are the neighbours.
        width: Channels of each level afterwards.
    """

    kernel_size: int = 7
    width: int = 2048

    def __post_init__(self) -> None:
        check_bounds("features", self, kernel_size=(1, 31), width=(1, 8192))
        if self.kernel_size % 2 == 0:
            raise ConfigError(f"features.kernel_size must be odd, got {self.kernel_size}")

    def channels_after(self, channels: tuple[int, ...]) -> tuple[int, ...]:
        """Return the width of every level."""
        return (self.width,) * len(channels)

    def build(self, channels: int, levels: int = 1) -> SpatialContextAggregator:
        """Build the aggregator."""
        return SpatialContextAggregator(channels, levels, self)
