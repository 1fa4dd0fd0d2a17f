"""Feature aggregation: each row of the paper's feature table, chosen by configuration."""

from mambamatcher.features.attention import AttentionAggregation
from mambamatcher.features.base import (
    FEATURE_AGGREGATIONS,
    Aggregated,
    FeatureAggregator,
    FeatureConfig,
    PerImageAggregator,
)
from mambamatcher.features.conv import ConvAggregation
from mambamatcher.features.fused import FusedAggregation
from mambamatcher.features.mamba2d import Mamba2dAggregation, PlainMamba2dAggregation
from mambamatcher.features.none import NoAggregation

__all__ = [
    "FEATURE_AGGREGATIONS",
    "Aggregated",
    "AttentionAggregation",
    "ConvAggregation",
    "FeatureAggregator",
    "FeatureConfig",
    "FusedAggregation",
    "Mamba2dAggregation",
    "NoAggregation",
    "PerImageAggregator",
    "PlainMamba2dAggregation",
]
