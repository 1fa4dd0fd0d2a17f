"""Convolutional Hough matching (CHM): matches vote for each other in the space of positions and scales."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds
from mambamatcher.model.correlation.base import (
    COPIES,
    CORRELATION_AGGREGATIONS,
    FLOAT_BYTES,
    MAX_UPSAMPLING,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Upsampled,
    upsampling_bytes,
)
from mambamatcher.model.correlation.conv4d import mutual_filter
from mambamatcher.ops.conv4d import conv4d
from mambamatcher.ops.upsample4d import upsample4d

SCALE_REACH = 1  # a match gets votes from the same and from the adjacent scales
SMALL = 1e-3  # spread of the initial weights


def sharing_classes(size: int, axes: int) -> Int[np.ndarray, " element"]:
    """Number the elements of a kernel so that those which share a weight have the same number.

    An element is a match near the centre: an offset in the source and one in the target. The kernel is isotropic, but
    it knows positions: elements share a weight if they agree in the distances of both offsets from the centre, in
    either order, and in the distance between the offsets.

    Args:
        size: Odd number of offsets along each axis.
        axes: Axes of one image: 2 for positions, 1 for scales.

    Example:
        >>> len(set(sharing_classes(5, axes=2))), len(set(sharing_classes(3, axes=1)))
        (55, 4)
    """
    reach = size // 2
    offsets = np.array(list(product(range(-reach, reach + 1), repeat=2 * axes)))
    source, target = offsets[:, :axes], offsets[:, axes:]
    ends = np.sort([(source**2).sum(1), (target**2).sum(1)], axis=0)
    between = ((source - target) ** 2).sum(1)
    return np.unique(np.stack([*ends, between], axis=1), axis=0, return_inverse=True)[1].reshape(-1)


class HoughKernel(nn.Module):
    """A kernel over positions, and over scales if `scales` is above 1, whose elements share weights by class.

    A weight is the sum over its elements: it is divided equally among them.
    """

    classes: Tensor
    shares: Tensor

    def __init__(self, size: int, scales: int) -> None:
        super().__init__()
        self.size, self.scales = size, scales
        by_position = sharing_classes(size, axes=2)
        by_scale = sharing_classes(2 * SCALE_REACH + 1, axes=1) if scales > 1 else np.zeros(1, dtype=int)
        classes = (by_scale[:, None] * (by_position.max() + 1) + by_position).reshape(-1)
        shares = np.bincount(classes).astype(np.float32)
        self.register_buffer("classes", torch.tensor(classes), persistent=False)
        self.register_buffer("shares", torch.tensor(shares), persistent=False)
        self.weight = nn.Parameter(SMALL * torch.randn(len(shares)).abs() * self.shares)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self) -> Float[Tensor, "scale_pairs scale_pairs k k k k"]:
        """Return the kernel of a 4D convolution between all pairs of scales.

        A convolution along the scales is one between channels: its kernel depends on the difference of the scales.
        """
        elements = (self.weight / self.shares)[self.classes]
        if self.scales == 1:
            return elements.view(1, 1, *(self.size,) * 4)
        width = 2 * SCALE_REACH + 1
        kernel = elements.view(width, width, *(self.size,) * 4)
        none = self.scales - 1 - SCALE_REACH  # scales so far apart do not vote for each other; negative: cannot occur
        kernel = F.pad(kernel, (0, 0) * 4 + (none, none) * 2)
        scale = torch.arange(self.scales, device=kernel.device)
        apart = scale - scale[:, None] + self.scales - 1
        # dimensions: source and target scale of the output, then of the input
        return kernel[apart[:, None, :, None], apart[None, :, None, :]].flatten(2, 3).flatten(0, 1)

    def convolve(self, x: Float[Tensor, "batch scale_pairs hs ws ht wt"]) -> Float[Tensor, "batch _ hs ws ht wt"]:
        """Collect the votes of every match's neighbours."""
        return conv4d(x, self(), self.bias.expand(x.shape[1]))


class HoughAggregator(CorrelationAggregator):
    """Vote in the space of positions and scales, keep the best pair of scales, upsample, vote again, filter."""

    def __init__(self, levels: int, config: "HoughAggregation") -> None:
        super().__init__()
        pairs = config.scales**2
        self.embed = nn.Identity() if levels == pairs else _mean_for_each(levels, pairs)
        self.votes_of_scales = HoughKernel(config.kernel_size, config.scales)
        self.votes = HoughKernel(config.kernel_size, scales=1)
        self.upsample = config.upsample

    def forward(self, correlation: CorrelationMap) -> Upsampled:
        """Refine a correlation map."""
        rows = rearrange(correlation, "b level hs ws ht wt -> b level (hs ws) (ht wt)")
        scale_space = self.embed(rows).reshape(len(rows), -1, *correlation.shape[2:]).relu()
        best = self.votes_of_scales.convolve(scale_space).sigmoid().amax(dim=1)
        votes = self.votes.convolve(upsample4d(best, self.upsample)[:, None])
        return mutual_filter(F.softplus(votes)).squeeze(1)

    def bytes_per_score(self, levels: int) -> int:
        """Estimate memory per score: the scale space and its spectra, and the same of the upsampled map."""
        fine = upsampling_bytes(self.upsample) + COPIES * self.upsample**4 * FLOAT_BYTES
        return COPIES * max(levels, self.votes_of_scales.scales**2) * FLOAT_BYTES + fine


def _mean_for_each(levels: int, pairs: int) -> nn.Conv2d:
    """Return a pointwise convolution that starts as the mean of the levels for every pair of scales."""
    embed = nn.Conv2d(levels, pairs, 1)
    nn.init.constant_(embed.weight, 1.0 / levels)
    nn.init.zeros_(torch.as_tensor(embed.bias))
    return embed


@CORRELATION_AGGREGATIONS.register("hough")
@dataclass(frozen=True, kw_only=True, slots=True)
class HoughAggregation(CorrelationConfig):
    """The head of CHM (Min and Cho, CVPR 2021): 6D and 4D convolutional Hough matching with shared weights.

    The 6D kernel has 4 x 55 weights and a bias, the 4D kernel 55 and a bias. The levels must be the pairs of scales of
    the feature aggregation `scale_space` on one level, source scale first. From any other number of levels, a learnt
    weighted sum of the levels replaces each pair of scales; that is not in the publication.

    Attributes:
        kernel_size: Odd side length of the kernels along all axes of positions.
        scales: Scales of each image. Votes come from the same and from adjacent scales.
        upsample: Factor by which the map is interpolated on every axis before the second vote.
    """

    kernel_size: int = 5
    scales: int = 3
    upsample: int = 2

    def __post_init__(self) -> None:
        check_bounds("correlation", self, kernel_size=(1, 9), scales=(1, 5), upsample=(1, MAX_UPSAMPLING))
        if self.kernel_size % 2 == 0:
            raise ConfigError(f"correlation.kernel_size must be odd, got {self.kernel_size}")

    def build(self, levels: int) -> HoughAggregator:
        """Build the aggregator."""
        return HoughAggregator(levels, self)
