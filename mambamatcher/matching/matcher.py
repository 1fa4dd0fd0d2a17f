"""The class people use: pictures and pixel points in, pixel points out."""

import json
import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TypedDict, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from numpy.typing import ArrayLike
from PIL import Image, ImageOps
from torch import Tensor

from mambamatcher.errors import InputError
from mambamatcher.io.images import ImageLike, load_image, resize_square, to_bytes
from mambamatcher.io.points import Pixels, check_points
from mambamatcher.matching.confidence import Calibration, dense_agreement, load_calibration
from mambamatcher.matching.feature_store import DiskCache, MemoryCache, digest, stamp
from mambamatcher.matching.foreground import find_foreground, spread_points
from mambamatcher.matching.memory_guard import check_memory
from mambamatcher.matching.pair import PreparedPair
from mambamatcher.matching.result import MatchResult, Modes
from mambamatcher.model.checkpoint import EMBEDDED, find_pretrained, load_pretrained
from mambamatcher.model.config import override, to_dict
from mambamatcher.model.features.conv import ConvAggregator
from mambamatcher.model.geometry import unit_to_pixels
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig, count_parameters
from mambamatcher.model.presets import PRESETS
from mambamatcher.pause_gc import collection_paused

__all__ = ["MatchResult", "Matcher", "Modes", "Picture", "PreparedPair", "UntrainedWarning", "check_points"]

Described = Float[Tensor, "1 level channel h w"]

CACHE_BYTES = 512 * 2**20  # eleven images of the paper's model


class UntrainedWarning(UserWarning):
    """A model with randomly initialised parts is about to be used for matching."""


@dataclass(frozen=True)
class Picture:
    """An image as the user has it and as the model sees it; equal to the model means equal keys."""

    image: Image.Image
    pixels: UInt8[Tensor, "3 side side"]
    key: str


Readable = ImageLike | Picture


class Options(TypedDict, total=False):
    """What a `Matcher` keeps: `cache_bytes` in memory, features on disk in `cache_folder`.

    `low_memory` makes the transformed weights of the feature aggregation anew for each pass instead of keeping them.
    `calibration` turns what the refined map says of a match into its confidence. `device` is where the model computes,
    as PyTorch names it; left out, or None, the model stays where it is.
    """

    cache_bytes: int
    cache_folder: str | PathLike[str] | None
    low_memory: bool
    calibration: Calibration
    device: str | None


class Matcher:
    """Owns what the model must not know: files, pixels, resizing, and what has been computed before.

    Threads may share a matcher. Passes through the model take turns: a single one already uses every core.
    """

    def __init__(self, model: MambaMatcher, **options: Unpack[Options]) -> None:
        if unknown := options.keys() - Options.__annotations__.keys():
            raise TypeError(f"Matcher has no option {min(unknown)!r}; there are {', '.join(Options.__annotations__)}")
        self.model = _moved(model, options.get("device")).eval()
        self.config = model.config
        self.calibration = options.get("calibration", Calibration())
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
        """Load a saved model, with its `calibration.json` where there is one; without a folder, the embedded one."""
        found = find_pretrained(EMBEDDED if folder is None else folder)
        options.setdefault("calibration", load_calibration(found))
        return cls(load_pretrained(found), **options)

    def match(
        self, source: Readable, target: Readable, points: ArrayLike, *, top_k: int = 1, flip_test: bool = False
    ) -> MatchResult:
        """Find in the target the points given on the source, both in original (upright) pixels.

        `top_k` and `flip_test` are those of `PreparedPair.match` and `prepare`.
        """
        picture = self.read(source)
        points = check_points(points, picture.image.size)
        return self.prepare(picture, target, flip_test=flip_test).match(points, top_k)

    def prepare(self, source: Readable, target: Readable, *, flip_test: bool = False) -> PreparedPair:
        """Compare two pictures, to ask for points later.

        With `flip_test` the mirrored source is compared too, and the one kept whose matches agree better, there and
        back, over the whole picture: an object that faces the other way then matches its own side.
        """
        source, target = self.read(source), self.read(target)
        pair = self._prepare(source, target)
        if not flip_test:
            return pair
        mirrored = self._prepare(self.read(ImageOps.mirror(source.image)), target)
        # mirrored back, the map reads from the source's own places
        flipped = replace(pair, refined=mirrored.refined.flip(2), mirrored=True)
        with torch.inference_mode():
            return max(pair, flipped, key=lambda each: dense_agreement(each.refined, each.transfer).mean().item())

    def match_many(self, source: Readable, targets: Iterable[Readable], points: ArrayLike) -> Iterator[MatchResult]:
        """Find the source's points in each of many targets, yielded as they are found; the source is described once."""
        picture = self.read(source)
        points = check_points(points, picture.image.size)

        def found() -> Iterator[MatchResult]:
            described = self._describe(picture)[0]
            for target in targets:
                yield self._prepare(picture, self.read(target), described).match(points)

        return found()

    def match_pairs(self, pairs: Iterable[tuple[Readable, Readable, ArrayLike]]) -> Iterator[MatchResult]:
        """Match each (source, target, points), yielded as they are found."""
        return (self.match(*pair) for pair in pairs)

    def describe(self, image: Readable) -> Described:
        """Return a picture's features on the model's grid, computed once and kept."""
        return self._describe(self.read(image))[0]

    def foreground(self, image: Readable) -> Bool[np.ndarray, "h w"]:
        """Return what the picture is about, on the model's grid, as far as its features tell."""
        return find_foreground(self.describe(image))

    def suggest_points(self, image: Readable, count: int = 12) -> Pixels:
        """Return points spread evenly over the foreground, in the picture's pixels."""
        picture = self.read(image)
        units = torch.from_numpy(spread_points(self.foreground(picture), count))
        return unit_to_pixels(units, picture.image.size).numpy()

    def forget(self, picture: Picture) -> None:
        """Drop from memory what was computed of a picture that will not be asked for again."""
        self._memory.forget(picture.key)

    def clear_cache(self) -> None:
        """Forget all features and comparisons kept in memory."""
        self._memory.clear()

    def read(self, image: Readable) -> Picture:
        """Decode a picture and make it ready for the model; what is read once need not be read again."""
        if isinstance(image, Picture):
            return image
        loaded = load_image(image)
        pixels = to_bytes(resize_square(loaded, self.config.side))
        return Picture(loaded, pixels, digest(pixels))

    def _prepare(self, source: Picture, target: Picture, described: Described | None = None) -> PreparedPair:
        """Compare two pictures; `described` is the source's description, where it is at hand."""
        key = (stamp(self.model), source.key, target.key)
        with torch.inference_mode(), self._computing, collection_paused():  # the first pair imports the kernels
            refined = self._memory.get(key)
            if refined is None:
                check_memory(self.model, self.config.side)
                if described is None:
                    refined = self.model.compare(*self._describe(source, target))
                else:
                    refined = self.model.compare(described, *self._describe(target))
                self._memory.put(key, refined)
        return PreparedPair(
            source=source.image,
            target=target.image,
            refined=refined,
            transfer=self.config.transfer,
            calibration=self.calibration,
        )

    def _describe(self, *pictures: Picture) -> list[Described]:
        """Return each picture's description: from memory, from disk, or computed.

        One at a time: beside another picture its last digits could be others, and what is beside it depends on what is
        remembered.
        """
        weights = stamp(self.model)
        described = []
        with torch.inference_mode(), self._computing:
            for picture in pictures:
                result = self._recall(picture, weights)
                if result is None:
                    pixels = picture.pixels[None].to(self.model.backbone.mean.device)
                    # convolutional backbones are quicker with their channels side by side, the others do not mind
                    result = self.model.describe((pixels.float() / 255.0).contiguous(memory_format=torch.channels_last))
                    self._keep(picture, result, weights)
                described.append(result)
        return described

    def _keep(self, picture: Picture, described: Described, weights: Hashable) -> None:
        self._memory.put((weights, picture.key), described)
        if self._disk is not None:
            self._disk.put(self._name_on_disk(picture), [described])

    def _recall(self, picture: Picture, weights: Hashable) -> Described | None:
        described = self._memory.get((weights, picture.key))
        if described is not None or self._disk is None:
            return described
        stored = self._disk.get(self._name_on_disk(picture))
        if stored is not None:
            described = stored[0].to(self.model.backbone.mean.device)
            self._memory.put((weights, picture.key), described)
        return described

    def _name_on_disk(self, picture: Picture) -> str:
        """Name a description after the model's weights and configuration and the picture."""
        current = stamp(self.model)
        if self._weights_digest is None or self._weights_digest[0] != current:
            settings = json.dumps(to_dict(self.config))
            self._weights_digest = current, digest(settings, *self.model.state_dict().values())
        return f"{self._weights_digest[1]}-{picture.key}"


def _moved(model: MambaMatcher, device: str | None) -> MambaMatcher:
    """Move a model to where it is to compute; a device that cannot compute is refused."""
    if device is None:
        return model
    try:
        torch.zeros((), device=device).item()
        return model.to(device)
    except (RuntimeError, AssertionError) as error:  # PyTorch has no error of its own for it
        told = str(error).splitlines()[0].partition(". ")[0]
        raise InputError(f"cannot compute on the device {device!r}: {told}") from error
