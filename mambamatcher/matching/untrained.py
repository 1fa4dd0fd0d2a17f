"""A warning about models whose matches will be poor."""

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mambamatcher.model.mambamatcher import MambaMatcher


class UntrainedWarning(UserWarning):
    """A model with randomly initialised parts is about to be used for matching."""


def warn_untrained(model: "MambaMatcher") -> None:
    """Warn the caller's caller if parts of a new model have random weights."""
    from mambamatcher.model.mambamatcher import count_parameters

    parts = {"features": model.features, "correlation": model.correlation, "projections": model.backbone.projections}
    untrained = [name for name, part in parts.items() if count_parameters(part)]
    if model.config.backbone.weights == "random":
        untrained.insert(0, "backbone")
    if untrained:
        warnings.warn(
            f"untrained parts: {', '.join(untrained)}. Matches will be poor; train this model, load a trained one "
            f"with Matcher.from_pretrained(folder), or use the preset 'nearest', which needs no training",
            UntrainedWarning,
            stacklevel=3,
        )
