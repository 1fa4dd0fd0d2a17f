"""The class people use: pictures and pixel points in, pixel points out."""

import json
import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TypedDict, Unpack

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import ArrayLike
from PIL import Image
from torch import Tensor

from mambamatcher.cache import DiskCache, MemoryCache, digest, stamp
from mambamatcher.checkpoint import load_pretrained
from mambamatcher.config import override, to_dict
from mambamatcher.errors import InputError
from mambamatcher.features.conv import ConvAggregator
from mambamatcher.files import write_atomically
from mambamatcher.geometry import pixels_to_unit, unit_to_pixels
from mambamatcher.images import ImageLike, load_image, resize_square, to_bytes
from mambamatcher.memory import check_memory
from mambamatcher.model import MambaMatcher, ModelConfig, count_parameters
from mambamatcher.presets import PRESETS
from mambamatcher.transfer import Transfer, point_probability, transfer_points
from mambamatcher.viz.matches import draw_matches

Pixels = Float[np.ndarray, "keypoint 2"]
Described = Float[Tensor, "1 level channel h w"]

CACHE_BYTES = 512 * 2**20  # eleven images of the paper's model


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


@dataclass(frozen=True, kw_only=True)
class PreparedPair:
    """Two pictures compared once; any number of points can then be asked for, each in a moment."""

    source: Image.Image = field(repr=False)
    target: Image.Image = field(repr=False)
    refined: Float[Tensor, "1 hs ws ht wt"] = field(repr=False)
    transfer: Transfer

    def match(self, points: ArrayLike) -> MatchResult:
        """Find in the target the points given on the source, both in original (upright) pixels."""
        source_points = check_points(points, self.source.size)
        units = torch.from_numpy(source_points).float().to(self.refined.device)
        units = pixels_to_unit(units, self.source.size)[None]
        with torch.inference_mode():
            found = unit_to_pixels(transfer_points(self.refined, units, self.transfer)[0], self.target.size)
            heatmaps = point_probability(self.refined, units, self.transfer)[0]
        return MatchResult(
            source_points=source_points,
            points=found.double().cpu().numpy(),
            confidence=heatmaps.amax(dim=(1, 2)).double().cpu().numpy(),
            source=self.source,
            target=self.target,
            heatmaps=heatmaps.double().cpu().numpy(),
        )


@dataclass(frozen=True)
class Picture:
    """An image as the user has it and as the model sees it; equal to the model means equal keys."""

    image: Image.Image
    pixels: UInt8[Tensor, "3 side side"]
    key: str


class Options(TypedDict, total=False):
    """What a `Matcher` keeps: `cache_bytes` in memory, features on disk in `cache_folder`.

    `low_memory` makes the transformed weights of the feature aggregation anew for each pass instead of keeping them.
    """

    cache_bytes: int
    cache_folder: str | PathLike[str] | None
    low_memory: bool


class Matcher:
    """Owns what the model must not know: files, pixels, resizing, and what has been computed before.

    Threads may share a matcher. Passes through the model take turns: a single one already uses every core.
    """

    def __init__(self, model: MambaMatcher, **options: Unpack[Options]) -> None:
        self.model = model.eval()
        self.config = model.config
        self._memory = MemoryCache(options.get("cache_bytes", CACHE_BYTES))
        folder = options.get("cache_folder")
        self._disk = None if folder is None else DiskCache(Path(folder).expanduser())
        self._weights_digest: tuple[Hashable, str] | None = None
        self._computing = RLock()
        if isinstance(model.features, ConvAggregator):
            model.features.keep_transformed = not options.get("low_memory", False)

    @classmethod
    def from_preset(
        cls, preset: str | ModelConfig, overrides: Sequence[str] = (), **options: Unpack[Options]
    ) -> "Matcher":
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
        return cls(model, **options)

    @classmethod
    def from_pretrained(cls, folder: str | PathLike[str] | None = None, **options: Unpack[Options]) -> "Matcher":
        """Load a saved model; without a folder, the default one.

        Until a trained model is shipped the default is nearest neighbours on EfficientNet-Lite2's levels.
        """
        if folder is None:
            return cls.from_preset("nearest", **options)
        return cls(load_pretrained(folder), **options)

    def match(self, source: ImageLike, target: ImageLike, points: ArrayLike) -> MatchResult:
        """Find in the target the points given on the source, both in original (upright) pixels."""
        source_picture = self._read(source)
        points = check_points(points, source_picture.image.size)
        return self._prepare(source_picture, self._read(target)).match(points)

    def prepare(self, source: ImageLike, target: ImageLike) -> PreparedPair:
        """Compare two pictures, to ask for points later."""
        return self._prepare(self._read(source), self._read(target))

    def match_many(self, source: ImageLike, targets: Iterable[ImageLike], points: ArrayLike) -> Iterator[MatchResult]:
        """Find the source's points in each of many targets, yielded as they are found; the source is described once."""
        picture = self._read(source)
        points = check_points(points, picture.image.size)

        def found() -> Iterator[MatchResult]:
            described = self._describe(picture)[0]
            for target in targets:
                yield self._prepare(picture, self._read(target), described).match(points)

        return found()

    def match_pairs(self, pairs: Iterable[tuple[ImageLike, ImageLike, ArrayLike]]) -> Iterator[MatchResult]:
        """Match each (source, target, points), yielded as they are found."""
        return (self.match(*pair) for pair in pairs)

    def clear_cache(self) -> None:
        """Forget all features and comparisons kept in memory."""
        self._memory.clear()

    def _read(self, image: ImageLike) -> Picture:
        loaded = load_image(image)
        pixels = to_bytes(resize_square(loaded, self.config.side))
        return Picture(loaded, pixels, digest(pixels))

    def _prepare(self, source: Picture, target: Picture, described: Described | None = None) -> PreparedPair:
        """Compare two pictures; `described` is the source's description, where it is at hand."""
        key = (stamp(self.model), source.key, target.key)
        with torch.inference_mode(), self._computing:
            refined = self._memory.get(key)
            if refined is None:
                check_memory(self.model, self.config.side)
                if described is None:
                    refined = self.model.compare(*self._describe(source, target))
                else:
                    refined = self.model.compare(described, *self._describe(target))
                self._memory.put(key, refined)
        return PreparedPair(source=source.image, target=target.image, refined=refined, transfer=self.config.transfer)

    def _describe(self, *pictures: Picture) -> list[Described]:
        """Return each picture's description: from memory, from disk, or computed, all that are missing at once."""
        weights = stamp(self.model)
        with torch.inference_mode(), self._computing:
            recalled = {each.key: self._recall(each, weights) for each in pictures}
            described = {key: each for key, each in recalled.items() if each is not None}
            missing = {each.key: each for each in pictures if each.key not in described}
            if missing:
                pixels = torch.stack([each.pixels for each in missing.values()]).to(self.model.backbone.mean.device)
                # convolutional backbones are quicker with their channels side by side, the others do not mind
                images = (pixels.float() / 255.0).contiguous(memory_format=torch.channels_last)
                for each, result in zip(missing.values(), self.model.describe(images).split(1), strict=True):
                    described[each.key] = result.clone()  # a view would keep the others' memory as well
                    self._keep(each, described[each.key], weights)
        return [described[each.key] for each in pictures]

    def _keep(self, picture: Picture, described: Described, weights: Hashable) -> None:
        self._memory.put((weights, picture.key), described)
        if self._disk is not None:
            self._disk.put(self._name_on_disk(picture), described)

    def _recall(self, picture: Picture, weights: Hashable) -> Described | None:
        described = self._memory.get((weights, picture.key))
        if described is not None or self._disk is None:
            return described
        described = self._disk.get(self._name_on_disk(picture))
        if described is not None:
            described = described.to(self.model.backbone.mean.device)
            self._memory.put((weights, picture.key), described)
        return described

    def _name_on_disk(self, picture: Picture) -> str:
        """Name a description after the model's weights and configuration and the picture."""
        current = stamp(self.model)
        if self._weights_digest is None or self._weights_digest[0] != current:
            settings = torch.frombuffer(bytearray(json.dumps(to_dict(self.config)).encode()), dtype=torch.uint8)
            self._weights_digest = current, digest(settings, *self.model.state_dict().values())
        return f"{self._weights_digest[1]}-{picture.key}"


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
