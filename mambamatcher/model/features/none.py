"""No feature aggregation: the backbone's features as they are."""

from dataclasses import dataclass

from mambamatcher.model.features.base import FEATURE_AGGREGATIONS, FeatureConfig, Features, PerImageAggregator


class Unchanged(PerImageAggregator):
    """Pass features through."""

    def per_image(self, features: Features) -> Features:
        """Return the features."""
        return features


@FEATURE_AGGREGATIONS.register("none")
@dataclass(frozen=True, kw_only=True, slots=True)
class NoAggregation(FeatureConfig):
    """Row "None" of the paper's feature table."""

    def build(self, channels: int, levels: int = 1) -> Unchanged:
        """Make the module."""
        return Unchanged()
