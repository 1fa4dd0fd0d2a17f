"""Building blocks that several aggregators share."""
