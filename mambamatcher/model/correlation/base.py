"""What a correlation aggregator is: a multi-level correlation map in, one refined map out."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.registry import Registry

CorrelationMap = Float[Tensor, "batch level hs ws ht wt"]
Refined = Float[Tensor, "batch hs ws ht wt"]


class CorrelationConfig(ABC):
    """A choice of correlation aggregation; `build` makes a module from `CorrelationMap` to `Refined`."""

    __slots__ = ()

    @abstractmethod
    def build(self, levels: int) -> nn.Module:
        """Make the module."""


CORRELATION_AGGREGATIONS: Registry[type[CorrelationConfig]] = Registry("correlation aggregation")


def mean_of_levels(levels: int) -> nn.Linear:
    """Return the projection of all levels onto one, starting as their mean: an untrained model then still matches."""
    project = nn.Linear(levels, 1)
    nn.init.constant_(project.weight, 1.0 / levels)
    nn.init.zeros_(project.bias)
    return project
