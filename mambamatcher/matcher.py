"""The class people use: pictures and pixel points in, pixel points out."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from PIL import Image
from torch import Tensor

from mambamatcher.checkpoint import load_pretrained
from mambamatcher.config import override
from mambamatcher.errors import InputError
from mambamatcher.files import write_atomically
from mambamatcher.geometry import pixels_to_unit, unit_to_pixels
from mambamatcher.images import ImageLike, load_image, to_tensor
from mambamatcher.model import MambaMatcher, ModelConfig, count_parameters
from mambamatcher.presets import PRESETS
from mambamatcher.transfer import point_probability, transfer_points
from mambamatcher.viz.matches import draw_matches

Pixels = Float[np.ndarray, "keypoint 2"]


class UntrainedWarning(UserWarning):
    """A model with randomly initialised parts is about to be used for matching."""


@dataclass(frozen=True, kw_only=True)
class MatchResult:
    """Where the source points lie in the target, in original pixels."""

    source_points: Pixels
    points: Pixels
    confidence: Float[np.ndarray, " keypoint"]  # the peak of each point's matching distribution, 0..1
    source: Image.Image = field(repr=False)
    target: Image.Image = field(repr=False)
    heatmaps: Float[np.ndarray, "keypoint ht wt"] = field(repr=False)

    def heatmap(self, index: int) -> Float[np.ndarray, "ht wt"]:
        """Return one point's matching distribution on the target's grid; it sums to 1."""
        return self.heatmaps[index]

    def draw(self) -> Image.Image:
        """Draw both pictures side by side with the matches."""
        return draw_matches(self.source, self.target, self.source_points, self.points)

    def save(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        """Write the drawn matches as a picture; the name's ending says the format."""
        path = Path(path)
        if path.suffix.lower() not in Image.registered_extensions():
            raise InputError(f"cannot tell the picture format of {path}; use an ending such as .png or .jpg")
        drawn = self.draw()
        write_atomically(path, lambda temporary: drawn.save(temporary), overwrite)

    def to_dict(self) -> dict[str, object]:
        """Return points, confidences and sizes as plain values."""
        return {
            "source_size": list(self.source.size),
            "target_size": list(self.target.size),
            "matches": [
                {"source": s.tolist(), "target": t.tolist(), "confidence": float(c)}
                for s, t, c in zip(self.source_points, self.points, self.confidence, strict=True)
            ],
        }

    def to_json(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        """Write the matches as JSON."""
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        write_atomically(Path(path), lambda temporary: _write_text(temporary, text), overwrite)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


class Matcher:
    """Owns what the model must not know: files, pixels and resizing."""

    def __init__(self, model: MambaMatcher) -> None:
        self.model = model.eval()
        self.config = model.config

    @classmethod
    def from_preset(cls, preset: str | ModelConfig, overrides: Sequence[str] = ()) -> "Matcher":
        """Make a matcher from a preset's name or a configuration; `overrides` are `key=value`."""
        config = override(PRESETS[preset]() if isinstance(preset, str) else preset, overrides)
        model = MambaMatcher(config)
        parts = {
            "features": model.features,
            "correlation": model.correlation,
            "projections": model.backbone.projections,
        }
        untrained = [name for name, part in parts.items() if count_parameters(part)]
        if config.backbone.weights == "random":
            untrained.insert(0, "backbone")
        if untrained:
            warnings.warn(
                f"untrained parts: {', '.join(untrained)}. Matches will be poor; train this model, load a trained one "
                f"with Matcher.from_pretrained(folder), or use the preset 'nearest', which needs no training",
                UntrainedWarning,
                stacklevel=2,
            )
        return cls(model)

    @classmethod
    def from_pretrained(cls, folder: str | PathLike[str] | None = None) -> "Matcher":
        """Load a saved model; without a folder, the default one.

        Until a trained model is shipped the default is nearest neighbours on EfficientNet-Lite2's levels.
        """
        return cls.from_preset("nearest") if folder is None else cls(load_pretrained(folder))

    def match(self, source: ImageLike, target: ImageLike, points: ArrayLike) -> MatchResult:
        """Find in the target the points given on the source, both in original (upright) pixels."""
        source_image, target_image = load_image(source), load_image(target)
        source_points = check_points(points, source_image.size)
        units = pixels_to_unit(torch.from_numpy(source_points).float(), source_image.size)[None]
        with torch.inference_mode():
            refined = self.model.refine(self._features(source_image), self._features(target_image))
            found = unit_to_pixels(transfer_points(refined, units, self.config.transfer)[0], target_image.size)
            heatmaps = point_probability(refined, units, self.config.transfer)[0]
        return MatchResult(
            source_points=source_points,
            points=found.double().cpu().numpy(),
            confidence=heatmaps.amax(dim=(1, 2)).double().cpu().numpy(),
            source=source_image,
            target=target_image,
            heatmaps=heatmaps.double().cpu().numpy(),
        )

    def _features(self, image: Image.Image) -> Float[Tensor, "1 level channel h w"]:
        device = self.model.backbone.mean.device
        return self.model.extract(to_tensor(image, self.config.side)[None].to(device))


def check_points(points: ArrayLike, size: tuple[int, int]) -> Pixels:
    """Return points as an array, or say which one is wrong."""
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"points must be a list of (x, y) numbers, got {points!r}") from error
    if array.size == 0:
        raise InputError("the list of points is empty; give at least one (x, y)")
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"points must be a list of (x, y) pairs, got an array of shape {array.shape}")
    inside = np.isfinite(array).all(axis=1) & (array >= 0).all(axis=1) & (array <= np.array(size)).all(axis=1)
    if not inside.all():
        index = int(np.argmin(inside))
        x, y = array[index]
        raise InputError(
            f"point {index + 1}, ({x:g}, {y:g}), lies outside the source image of {size[0]}x{size[1]} pixels"
        )
    return array
