"""4D convolutions over the correlation map, and NCNet's neighbourhood consensus."""

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds, check_length
from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Refined,
)
from mambamatcher.ops.conv4d import conv4d


class Conv4d(nn.Module):
    """A dense 4D convolution that keeps the size of the map."""

    def __init__(self, before: int, after: int, kernel_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(after, before, *(kernel_size,) * 4))
        self.bias = nn.Parameter(torch.zeros(after))
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)

    def forward(self, x: Float[Tensor, "batch before hs ws ht wt"]) -> Float[Tensor, "batch after hs ws ht wt"]:
        """Convolve over the two source and the two target dimensions."""
        return conv4d(x, self.weight, self.bias)


def mutual_filter(x: Float[Tensor, "batch channel hs ws ht wt"]) -> Float[Tensor, "batch channel hs ws ht wt"]:
    """Apply NCNet's soft mutual nearest-neighbour filter.

    Each score is multiplied by its ratio to the best score of its source position and of its target position.
    """
    best_of_source = x.amax(dim=(4, 5), keepdim=True).clamp_min(1e-6)
    best_of_target = x.amax(dim=(2, 3), keepdim=True).clamp_min(1e-6)
    return x * (x / best_of_source) * (x / best_of_target)


class Conv4dAggregator(CorrelationAggregator):
    """A stack of 4D convolutions from all levels to one map.

    With `consensus` it follows NCNet: the mutual filter is applied before and after, every convolution ends in a ReLU,
    and the stack also runs on the map with source and target exchanged. The sum of both results does not depend on
    which image is the source.
    """

    def __init__(self, levels: int, config: "Conv4dAggregation") -> None:
        super().__init__()
        widths = (levels, *config.hidden, 1)
        self.convolutions = nn.ModuleList(Conv4d(a, b, config.kernel_size) for a, b in pairwise(widths))
        self.consensus = config.consensus

    def _convolve(self, x: Float[Tensor, "batch level hs ws ht wt"]) -> Float[Tensor, "batch 1 hs ws ht wt"]:
        for convolution in self.convolutions[:-1]:
            x = F.relu(convolution(x))
        return self.convolutions[-1](x)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        if not self.consensus:
            return self._convolve(correlation).squeeze(1)
        filtered = mutual_filter(correlation)
        swapped = rearrange(filtered, "b level hs ws ht wt -> b level ht wt hs ws")
        if swapped.shape == filtered.shape:  # at once, so that the spectra of the kernels are computed once
            forwards, backwards = F.relu(self._convolve(torch.cat([filtered, swapped]))).chunk(2)
        else:
            forwards, backwards = F.relu(self._convolve(filtered)), F.relu(self._convolve(swapped))
        return mutual_filter(forwards + rearrange(backwards, "b 1 ht wt hs ws -> b 1 hs ws ht wt")).squeeze(1)


@CORRELATION_AGGREGATIONS.register("conv4d")
@dataclass(frozen=True, kw_only=True, slots=True)
class Conv4dAggregation(CorrelationConfig):
    """Rows "4D Conv" of the paper's correlation table; NCNet, if `hidden` and `consensus` are set.

    NCNet's network has 180,033 parameters on its one level. More levels are more input channels, which is not in the
    publication. The filter divides by at least 1e-6; the authors' code adds 1e-5.

    Attributes:
        kernel_size: Odd side length of the kernel in all four dimensions.
        hidden: Channels of the hidden layers; empty for a single convolution.
        consensus: Whether to apply the mutual filter and to treat both images symmetrically.
    """

    kernel_size: int = 3
    hidden: tuple[int, ...] = ()
    consensus: bool = False

    def __post_init__(self) -> None:
        check_length("correlation", self, hidden=8)
        check_bounds("correlation", self, kernel_size=(1, 9), hidden=(1, 128))
        if self.kernel_size % 2 == 0:
            raise ConfigError(f"correlation.kernel_size must be odd, got {self.kernel_size}")

    def build(self, levels: int) -> Conv4dAggregator:
        """Build the aggregator."""
        return Conv4dAggregator(levels, self)
