"""Correlation maps and their aggregation: each row of the paper's correlation table, chosen by configuration."""

from mambamatcher.correlation.base import CORRELATION_AGGREGATIONS, CorrelationConfig
from mambamatcher.correlation.compute import EPSILON, blended_correlation, correlation_map
from mambamatcher.correlation.conv4d import Conv4dAggregation
from mambamatcher.correlation.fastformer import FastFormerAggregation
from mambamatcher.correlation.linear import Linear, LinearAggregation, MeanAggregation
from mambamatcher.correlation.plain_mamba import PlainMamba4dAggregation
from mambamatcher.correlation.similarity_scan import SimilarityScanAggregation

__all__ = [
    "CORRELATION_AGGREGATIONS",
    "EPSILON",
    "Conv4dAggregation",
    "CorrelationConfig",
    "FastFormerAggregation",
    "Linear",
    "LinearAggregation",
    "MeanAggregation",
    "PlainMamba4dAggregation",
    "SimilarityScanAggregation",
    "blended_correlation",
    "correlation_map",
]
