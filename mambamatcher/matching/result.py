"""The result of a match: points with their confidence, as arrays, as plain values and as an image."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import write_atomically, write_text_atomically
from mambamatcher.io.drawing import draw_matches
from mambamatcher.io.heatmaps import draw_heatmaps
from mambamatcher.io.points import Pixels
from mambamatcher.matching.confidence import Evidence


@dataclass(frozen=True, kw_only=True)
class Modes:
    """Separate candidates for each point, best first; where a point has fewer, `present` is false."""

    points: Float[NDArray[np.float64], "keypoint mode 2"]  # original target pixels
    confidence: Float[NDArray[np.float64], "keypoint mode"]
    present: Bool[NDArray[np.bool_], "keypoint mode"]


@dataclass(frozen=True, kw_only=True)
class MatchResult:
    """Where the source points lie in the target, in original pixels.

    `confidence` is the calibrated probability that a match is right; where `matched` is false it is so low that the
    target probably shows no counterpart. `presence` is the probability that the target shows the point at all, whether
    or not it was found in the right place.
    """

    source_points: Pixels
    points: Pixels
    confidence: Float[NDArray[np.float64], " keypoint"]
    matched: Bool[NDArray[np.bool_], " keypoint"]
    presence: Float[NDArray[np.float64], " keypoint"]
    source: Image.Image = field(repr=False)
    target: Image.Image = field(repr=False)
    heatmaps: Float[NDArray[np.float64], "keypoint ht wt"] = field(repr=False)
    evidence: Evidence = field(repr=False)  # what the confidence is made of
    modes: Modes | None = None

    def heatmap(self, index: int) -> Float[NDArray[np.float64], "ht wt"]:
        """Return one point's matching distribution on the target's grid; it sums to 1."""
        return self.heatmaps[index]

    def draw(self, names: Sequence[str] | None = None) -> Image.Image:
        """Draw both images side by side with the matches: confidence by colour, points below the threshold hollow.

        Points are labelled with their names, or numbered from 1 without them.
        """
        places = self.source_points, self.points
        return draw_matches(self.source, self.target, *places, self.confidence, self.matched, names=names)

    def save(self, path: str | PathLike[str], overwrite: bool = False, names: Sequence[str] | None = None) -> None:
        """Write the drawn matches as an image; the suffix of the name chooses the format."""
        save_image(self.draw(names), path, overwrite)

    def save_heatmaps(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        """Write one panel per point: where in the target it may lie."""
        save_image(draw_heatmaps(self.target, self.heatmaps, self.points), path, overwrite)

    def to_dict(self) -> dict[str, Any]:
        """Return points, confidences and sizes as plain values."""
        matches: list[dict[str, Any]] = [
            {
                "source": s.tolist(),
                "target": t.tolist(),
                "confidence": float(c),
                "presence": float(p),
                "matched": bool(m),
            }
            for s, t, c, p, m in zip(
                self.source_points, self.points, self.confidence, self.presence, self.matched, strict=True
            )
        ]
        if self.modes is not None:
            for index, match in enumerate(matches):
                kept = self.modes.present[index]
                match["modes"] = [
                    {"target": t.tolist(), "confidence": float(c)}
                    for t, c in zip(self.modes.points[index][kept], self.modes.confidence[index][kept], strict=True)
                ]
        return {
            "source_size": list(self.source.size),
            "target_size": list(self.target.size),
            "matches": matches,
        }

    def to_json(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        """Write the matches as JSON."""
        write_text_atomically(Path(path), json.dumps(self.to_dict(), indent=2) + "\n", overwrite)


def check_image_name(path: str | PathLike[str]) -> None:
    """Refuse a file name whose suffix is no image format."""
    if Path(path).suffix.lower() not in Image.registered_extensions():
        raise InputError(f"cannot tell the image format of {path}; use a suffix such as .png or .jpg")


def save_image(image: Image.Image, path: str | PathLike[str], overwrite: bool = False) -> None:
    """Write an image atomically."""
    check_image_name(path)
    write_atomically(Path(path), lambda temporary: image.save(temporary), overwrite)
