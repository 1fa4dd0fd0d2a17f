"""Our own matcher as the evaluation sees it."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from PIL import Image
from torch import nn

from mambamatcher.matching.matcher import Matcher
from mambamatcher.matching.portable import PortableMatcher
from mambamatcher.model.config import to_dict


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
            **to_dict(matcher.config),
            "weights_hash": weights_hash(matcher.model),
        }
        self._portable = PortableMatcher(matcher, device)

    def predict_points(
        self, source: Image.Image, target: Image.Image, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Match points; an annotated point that lies just outside the image is moved to its edge."""
        result = self._portable.matcher.match(source, target, np.clip(points, 0, source.size))
        return result.points, result.confidence


def weights_hash(model: nn.Module) -> str:
    """Return a short name for exactly these weights."""
    digest = sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
