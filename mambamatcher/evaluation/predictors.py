"""Our own matcher as the evaluation sees it."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from PIL import Image
from torch import nn

from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.config import to_dict


class MatcherPredictor:
    """A `Matcher` under the name the user gave it; its configuration says which weights it has."""

    def __init__(self, name: str, matcher: Matcher) -> None:
        self.name = name
        self.matcher = matcher
        self.configuration: Mapping[str, Any] = {
            **to_dict(matcher.config),
            "weights_hash": weights_hash(matcher.model),
        }

    def predict_points(
        self, source: Image.Image, target: Image.Image, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Match points; an annotated point that lies just outside the picture is taken at its edge."""
        result = self.matcher.match(source, target, np.clip(points, 0, source.size))
        return result.points, result.confidence


def weights_hash(model: nn.Module) -> str:
    """Return a short name for exactly these weights."""
    digest = sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
