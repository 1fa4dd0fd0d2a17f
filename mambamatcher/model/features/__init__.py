"""Feature aggregators. Each row of the paper's feature table is one configuration."""

from mambamatcher.model.features.attention import AttentionAggregation
from mambamatcher.model.features.base import (
    FEATURE_AGGREGATIONS,
    Aggregated,
    FeatureAggregator,
    FeatureConfig,
    NoAggregation,
)
from mambamatcher.model.features.conv import ConvAggregation
from mambamatcher.model.features.fused import FusedAggregation
from mambamatcher.model.features.mamba2d import Mamba2dAggregation, PlainMamba2dAggregation
from mambamatcher.model.features.scale_space import ScaleSpaceAggregation
from mambamatcher.model.features.sliced import SlicedAggregation
from mambamatcher.model.features.spatial_context import SpatialContextAggregation

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
    "PlainMamba2dAggregation",
    "ScaleSpaceAggregation",
    "SlicedAggregation",
    "SpatialContextAggregation",
]
