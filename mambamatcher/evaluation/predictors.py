"""Our own matcher as the evaluation sees it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from mambamatcher.matching.matcher import Matcher
from mambamatcher.matching.portable import PortableMatcher


class MatcherPredictor:
    """A `Matcher` under the name the user gave it; its configuration identifies its weights."""

    def __init__(self, name: str, matcher: Matcher, device: str | None = None) -> None:
        """Wrap a matcher.

        Args:
            name: The model's name in reports.
            matcher: The matcher, used as it is in this process.
            device: Where its copies in other processes compute.
        """
        self.name = name
        self.configuration: Mapping[str, Any] = {
            **matcher.config,
            "weights_hash": matcher.runtime.weights_hash(),
        }
        self._portable = PortableMatcher(matcher, device)

    def predict_points(
        self, source: Image.Image, target: Image.Image, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Match points; an annotated point that lies just outside the image is moved to its edge."""
        result = self._portable.matcher.match(source, target, np.clip(points, 0, source.size))
        return result.points, result.confidence
