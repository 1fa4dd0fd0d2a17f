"""Correlation maps and their aggregators: each row of the paper's correlation table, and the heads of other systems."""

from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    AppearanceAggregator,
    CorrelationAggregator,
    CorrelationConfig,
    FeatureShape,
    ShapedConfig,
)
from mambamatcher.model.correlation.cats import CatsAggregation
from mambamatcher.model.correlation.cats_plus_plus import CatsPlusPlusAggregation
from mambamatcher.model.correlation.compute import EPSILON, blended_correlation, correlation_map
from mambamatcher.model.correlation.conv4d import Conv4dAggregation
from mambamatcher.model.correlation.fastformer import FastFormerAggregation
from mambamatcher.model.correlation.high_resolution import HighResolutionAggregation
from mambamatcher.model.correlation.hough import HoughAggregation
from mambamatcher.model.correlation.linear import LinearAggregation, MeanAggregation
from mambamatcher.model.correlation.noised import NoisedAggregation
from mambamatcher.model.correlation.plain_mamba import PlainMamba4dAggregation
from mambamatcher.model.correlation.pointwise import PointwiseAggregation
from mambamatcher.model.correlation.similarity_scan import SimilarityScanAggregation

__all__ = [
    "CORRELATION_AGGREGATIONS",
    "EPSILON",
    "AppearanceAggregator",
    "CatsAggregation",
    "CatsPlusPlusAggregation",
    "Conv4dAggregation",
    "CorrelationAggregator",
    "CorrelationConfig",
    "FastFormerAggregation",
    "FeatureShape",
    "HighResolutionAggregation",
    "HoughAggregation",
    "LinearAggregation",
    "MeanAggregation",
    "NoisedAggregation",
    "PlainMamba4dAggregation",
    "PointwiseAggregation",
    "ShapedConfig",
    "SimilarityScanAggregation",
    "blended_correlation",
    "correlation_map",
]
