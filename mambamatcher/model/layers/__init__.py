"""Building blocks shared by several aggregators."""
