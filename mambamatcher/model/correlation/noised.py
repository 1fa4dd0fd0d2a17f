"""A positive control for comparisons of correlation heads: with noise on the levels, neighbours must help."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds
from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Refined,
)
from mambamatcher.model.correlation.conv4d import Conv4dAggregation


class NoisedAggregator(CorrelationAggregator):
    """Add noise to every score, then refine with a 4D convolution, of size 1 for a weighted sum of levels.

    The noise of a pair is drawn with a seed that its scores give, so that it does not depend on the pairs before it.
    """

    def __init__(self, levels: int, noise: float, kernel_size: int) -> None:
        super().__init__()
        self.noise = noise
        self.refine = Conv4dAggregation(kernel_size=kernel_size).build(levels)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a noised correlation map."""
        noise = torch.stack([_noise(each.detach()) for each in correlation])
        return self.refine(correlation + self.noise * noise.to(correlation))


def _noise(scores: Float[Tensor, "level hs ws ht wt"]) -> Float[Tensor, "level hs ws ht wt"]:
    seed = round(1000 * float(scores.double().abs().sum())) % 2**31
    return torch.randn(scores.shape, generator=torch.Generator().manual_seed(seed))


@CORRELATION_AGGREGATIONS.register("noised")
@dataclass(frozen=True, kw_only=True, slots=True)
class NoisedAggregation(CorrelationConfig):
    """A 4D convolution of noised scores, for the control rows of the table `scan`.

    Attributes:
        noise: Standard deviation of the noise.
        kernel_size: Odd kernel size of the 4D convolution.
    """

    noise: float = 0.3
    kernel_size: int = 1

    def __post_init__(self) -> None:
        check_bounds("correlation", self, kernel_size=(1, 9))
        if not 0 <= self.noise <= 10:
            raise ConfigError(f"correlation.noise must be from 0 to 10, got {self.noise}")

    def build(self, levels: int) -> NoisedAggregator:
        """Build the aggregator."""
        return NoisedAggregator(levels, self.noise, self.kernel_size)
