"""Selective scans over the positions of each feature map."""

from dataclasses import dataclass, field

from einops import rearrange

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_length
from mambamatcher.model.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator
from mambamatcher.model.layers.grid_scans import OrderedScan, SnakeScan
from mambamatcher.model.layers.mamba import MambaSettings
from mambamatcher.model.layers.scan_orders import MAX_ORDERS, SCAN_ORDERS
from mambamatcher.registry import unknown

SPATIAL_ORDERS = ("raster", "reverse_raster", "z_order", "random")


class Mamba2dAggregator(PerImageAggregator):
    """One Mamba block per scan order, shared by all levels, with a residual connection."""

    def __init__(self, channels: int, config: "Mamba2dAggregation") -> None:
        super().__init__()
        self.orders = [SCAN_ORDERS[name] for name in config.orders]
        self.scan = OrderedScan(channels, len(self.orders), config.mamba)

    def per_image(self, features: Features) -> Features:
        """Scan the positions of each level in the chosen orders."""
        _, level, _, h, w = features.shape
        tokens = rearrange(features, "b level c h w -> (b level) (h w) c")
        # Spatial orders ignore the values of the similarity, so any channel can be passed for it.
        scanned = self.scan(tokens, [order(tokens[..., 0], (h, w)) for order in self.orders])
        return rearrange(tokens + scanned, "(b level) (h w) c -> b level c h w", level=level, h=h)


@FEATURE_AGGREGATIONS.register("mamba2d")
@dataclass(frozen=True, kw_only=True, slots=True)
class Mamba2dAggregation(FeatureConfig):
    """Rows "Mamba2D", "+ bidirectional" (two orders) and "+ Z-order" of the paper's feature table.

    Attributes:
        orders: Spatial scan orders. Each has its own block and their outputs are summed.
        mamba: Sizes of the Mamba blocks.
    """

    orders: tuple[str, ...] = ("raster",)
    mamba: MambaSettings = field(default_factory=MambaSettings)

    def __post_init__(self) -> None:
        check_length("features", self, orders=MAX_ORDERS)
        for name in self.orders:
            if name not in SCAN_ORDERS:
                raise unknown("scan order", name, SPATIAL_ORDERS)
            if name not in SPATIAL_ORDERS:
                raise ConfigError(
                    f"scan order {name!r} sorts by similarity, but feature maps have no similarity; "
                    f"use one of {', '.join(SPATIAL_ORDERS)}"
                )

    def build(self, channels: int, levels: int = 1) -> Mamba2dAggregator:
        """Build the aggregator."""
        return Mamba2dAggregator(channels, self)


class PlainMamba2dAggregator(PerImageAggregator):
    """PlainMamba's continuous, direction-aware snake scan, shared by all levels, with a residual connection."""

    def __init__(self, channels: int, settings: MambaSettings) -> None:
        super().__init__()
        self.scan = SnakeScan(channels, axes=2, settings=settings)

    def per_image(self, features: Features) -> Features:
        """Scan each level along its four snakes."""
        _, level, _, h, w = features.shape
        tokens = rearrange(features, "b level c h w -> (b level) (h w) c")
        return rearrange(tokens + self.scan(tokens, (h, w)), "(b level) (h w) c -> b level c h w", level=level, h=h)


@FEATURE_AGGREGATIONS.register("plain_mamba")
@dataclass(frozen=True, kw_only=True, slots=True)
class PlainMamba2dAggregation(FeatureConfig):
    """Row "PlainMamba" of the paper's feature table."""

    mamba: MambaSettings = field(default_factory=MambaSettings)

    def build(self, channels: int, levels: int = 1) -> PlainMamba2dAggregator:
        """Build the aggregator."""
        return PlainMamba2dAggregator(channels, self.mamba)
