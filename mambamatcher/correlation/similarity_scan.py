"""The similarity-aware selective scan: a Mamba block over all scores, strongest first (Sec. 4.2)."""

from dataclasses import dataclass

from einops import rearrange
from torch import nn

from mambamatcher.correlation.base import (
    CORRELATION_AGGREGATIONS,
    CorrelationConfig,
    CorrelationMap,
    Refined,
    mean_of_levels,
)
from mambamatcher.correlation.sort_keys import SORT_KEYS
from mambamatcher.errors import ConfigError
from mambamatcher.layers.mamba import MambaSettings
from mambamatcher.layers.positional import POSITIONAL_ENCODINGS
from mambamatcher.layers.scan_orders import SCAN_ORDERS
from mambamatcher.layers.selective import OrderedScan

PAPER_BLOCK = MambaSettings(state=16, conv=4, expand=3)


class SimilarityScan(nn.Module):
    """Sort the correlation sequence, scan it, put it back in place, project it onto one score."""

    def __init__(self, levels: int, config: "SimilarityScanAggregation") -> None:
        super().__init__()
        self.sort_key = SORT_KEYS[config.sort_key]
        self.orders = [SCAN_ORDERS[name] for name in config.orders]
        self.residual = config.residual
        self.positional = POSITIONAL_ENCODINGS[config.positional](levels)
        self.norms = nn.ModuleList(nn.LayerNorm(levels) if config.norm else nn.Identity() for _ in range(config.depth))
        self.scans = nn.ModuleList(OrderedScan(levels, len(self.orders), config.mamba) for _ in range(config.depth))
        self.project = mean_of_levels(levels)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        shape = tuple(correlation.shape[2:])
        sequence = rearrange(correlation, "b level hs ws ht wt -> b (hs ws ht wt) level")
        similarity = self.sort_key(sequence).detach()
        orders = [order(similarity, shape) for order in self.orders]
        sequence = self.positional(sequence, shape)
        for norm, scan in zip(self.norms, self.scans, strict=True):
            scanned = scan(norm(sequence), orders)
            sequence = sequence + scanned if self.residual else scanned
        return self.project(sequence).squeeze(-1).unflatten(1, shape)


@CORRELATION_AGGREGATIONS.register("similarity_scan")
@dataclass(frozen=True, kw_only=True, slots=True)
class SimilarityScanAggregation(CorrelationConfig):
    """All rows "Mamba4D" of the paper's correlation table; the defaults are the paper's model.

    Several `orders` get a block each and are summed: ("raster", "reverse_raster") is the bidirectional row.
    """

    orders: tuple[str, ...] = ("descending",)
    sort_key: str = "last"
    positional: str = "none"
    depth: int = 1
    norm: bool = False
    residual: bool = True
    mamba: MambaSettings = PAPER_BLOCK

    def __post_init__(self) -> None:
        if not self.orders or self.depth < 1:
            raise ConfigError("correlation.orders needs at least one order and correlation.depth at least 1")
        for registry, names in (
            (SCAN_ORDERS, self.orders),
            (SORT_KEYS, [self.sort_key]),
            (POSITIONAL_ENCODINGS, [self.positional]),
        ):
            for name in names:
                registry[name]

    def build(self, levels: int) -> SimilarityScan:
        """Make the module."""
        return SimilarityScan(levels, self)
