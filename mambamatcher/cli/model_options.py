"""The options that choose a model and how sure it must be."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mambamatcher.matching.matcher import Matcher

Model = Annotated[
    str | None, typer.Option(help="default, lite, a preset's name, or a saved model's folder.", show_default="default")
]
Threshold = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="Confidence from which a point counts as found.", show_default="the model's own"
    ),
]


def set_threshold(matcher: "Matcher", threshold: float | None) -> "Matcher":
    """Let a matcher call points found from this confidence; None leaves the threshold of its calibration."""
    if threshold is not None:
        matcher.calibration = replace(matcher.calibration, threshold=threshold)
    return matcher
