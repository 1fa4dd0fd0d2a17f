"""The class people use: images and pixel points in, pixel points out."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from PIL import Image

from mambamatcher.io.images import ImageLike, load_image, resize_square, to_bytes
from mambamatcher.io.points import Pixels, check_points
from mambamatcher.io.tensor_store import TensorStore, digest
from mambamatcher.matching.confidence import Calibration, load_calibration
from mambamatcher.matching.foreground import find_foreground, spread_points
from mambamatcher.matching.loading import RuntimeName, load_runtime, require_torch, torch_runtime
from mambamatcher.matching.pair import PreparedPair
from mambamatcher.matching.result import MatchResult, Modes
from mambamatcher.matching.runtime import Encoded, EncodedSource, EncodedTarget, Refined, Runtime
from mambamatcher.matching.runtime import Pixels as ModelPixels
from mambamatcher.matching.scores import LinearScores, Scores, WholeMap
from mambamatcher.matching.untrained import UntrainedWarning, warn_untrained
from mambamatcher.model.frames import unit_to_pixels
from mambamatcher.model.saved import SHIPPED, find_pretrained
from mambamatcher.pause_gc import collection_paused

if TYPE_CHECKING:
    from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig

__all__ = [
    "LoadedImage",
    "MatchResult",
    "Matcher",
    "Modes",
    "PreparedPair",
    "Readable",
    "UntrainedWarning",
    "check_points",
]

CACHE_BYTES = 512 * 2**20  # eleven images of the paper's model


@dataclass(frozen=True)
class LoadedImage:
    """An image as the user has it and as the model sees it; equal pixels for the model mean equal keys.

    Attributes:
        image: The upright image.
        pixels: What the model is given.
        key: Names the pixels.
        encoded: The features of the model that encoded the image when it was read.
    """

    image: Image.Image
    pixels: ModelPixels
    key: str
    encoded: Encoded | None = None


Readable = ImageLike | LoadedImage


class Matcher:
    """Owns what the model must not know: files, pixels, resizing, caching, confidence.

    Threads may share a matcher. Passes through the model take turns: a single one already uses every core. Only the
    matcher that `for_many` returns encodes several images at once.

    Args:
        model: A model, or a runtime that stands for one.
        cache_bytes: Memory for encoded images and refined correlation maps.
        cache_folder: Where encoded images are also kept on disk.
        low_memory: Transform the weights of the feature aggregation for each image instead of keeping them.
        calibration: Turns what the refined map says about a match into its confidence.
        device: Where the model computes, as PyTorch names it; None leaves it where it is.

    Raises:
        InputError: The device cannot compute, or the cache folder cannot be used.

    Example:
        >>> matcher = Matcher.from_pretrained()
        >>> size = 64, 48
        >>> matcher.match(Image.new("RGB", size), Image.new("RGB", size), [(32, 24)]).points.shape
        (1, 2)
    """

    def __init__(
        self,
        model: "MambaMatcher | Runtime",
        *,
        cache_bytes: int = CACHE_BYTES,
        cache_folder: str | PathLike[str] | None = None,
        low_memory: bool = False,
        calibration: Calibration | None = None,
        device: str | None = None,
    ) -> None:
        self.runtime = model if isinstance(model, Runtime) else torch_runtime(model, device, low_memory)
        self.calibration = calibration or Calibration()
        self._store = TensorStore(cache_bytes, None if cache_folder is None else Path(cache_folder).expanduser())
        self._computing = RLock()

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration as plain values."""
        return self.runtime.config

    @property
    def model(self) -> "MambaMatcher":
        """The PyTorch model.

        Raises:
            TypeError: Another runtime stands in its place.
        """
        model: MambaMatcher | None = getattr(self.runtime, "model", None)
        if model is None:
            raise TypeError(f"{type(self.runtime).__name__} has no PyTorch model; load it with runtime='torch'")
        return model

    @classmethod
    def from_preset(
        cls,
        preset: "str | ModelConfig",
        overrides: Sequence[str] = (),
        *,
        cache_bytes: int = CACHE_BYTES,
        cache_folder: str | PathLike[str] | None = None,
        low_memory: bool = False,
        calibration: Calibration | None = None,
        device: str | None = None,
    ) -> "Matcher":
        """Make a matcher with the initial weights of a configuration.

        Args:
            preset: A preset's name or a configuration.
            overrides: Changes to it, each `key=value`.
            cache_bytes: As for `Matcher`.
            cache_folder: As for `Matcher`.
            low_memory: As for `Matcher`.
            calibration: As for `Matcher`.
            device: As for `Matcher`.

        Raises:
            ConfigError: There is no such preset, or an override names an unknown key or an impossible value.
            WeightsError: The weights of the backbone are missing.
            InputError: The device cannot compute, or the cache folder cannot be used.
            BackendError: PyTorch is not installed.

        Warns:
            UntrainedWarning: Parts of the model have random weights.
        """
        require_torch("presets are built by PyTorch, which is not installed")
        from mambamatcher.model.config import override
        from mambamatcher.model.mambamatcher import MambaMatcher
        from mambamatcher.model.presets import PRESETS

        config = override(PRESETS[preset]() if isinstance(preset, str) else preset, overrides)
        model = MambaMatcher(config)
        warn_untrained(model)
        return cls(
            model,
            cache_bytes=cache_bytes,
            cache_folder=cache_folder,
            low_memory=low_memory,
            calibration=calibration,
            device=device,
        )

    @classmethod
    def from_pretrained(
        cls,
        folder: str | PathLike[str] | None = None,
        *,
        runtime: RuntimeName | None = None,
        threads: int | None = None,
        cache_bytes: int = CACHE_BYTES,
        cache_folder: str | PathLike[str] | None = None,
        low_memory: bool = False,
        calibration: Calibration | None = None,
        device: str | None = None,
    ) -> "Matcher":
        """Load a saved model, with its `calibration.json` where there is one.

        Args:
            folder: The model's folder or hub id; without one, the shipped model `default`.
            runtime: What runs the model: "onnx" (ONNX Runtime on the CPU; the default where the folder has a graph, as
                those of the shipped models have), "int8" (the same with products of bytes, for a ViT or an
                EfficientNet: faster, and matches differ a little) or "torch" (PyTorch, for any model and device).
            threads: Threads of ONNX Runtime. By default one for each core that this process may use, at most
                OMP_NUM_THREADS; they sleep while they wait, so that other programs get the cores.
            cache_bytes: As for `Matcher`.
            cache_folder: As for `Matcher`.
            low_memory: As for `Matcher`.
            calibration: As for `Matcher`, by default the model's own.
            device: As for `Matcher`.

        Raises:
            WeightsError: There is no such model, or its weights are damaged or do not fit its configuration.
            ConfigError: Its configuration or calibration cannot be read.
            InputError: The device cannot compute, or the cache folder cannot be used.
            BackendError: The runtime is not installed.
        """
        found = find_pretrained(SHIPPED["default"] if folder is None else folder)
        return cls(
            load_runtime(found, runtime, threads, device, low_memory),
            cache_bytes=cache_bytes,
            cache_folder=cache_folder,
            calibration=calibration or load_calibration(found),
        )

    def match(self, source: Readable, target: Readable, points: ArrayLike, *, top_k: int = 1) -> MatchResult:
        """Find points of the source in the target.

        Args:
            source: The image the points are on.
            target: The image to find them in.
            points: `(x, y)` in the source's original, upright pixels.
            top_k: How many separate places to return for each point in the result's `modes`.

        Raises:
            InputError: An image cannot be read, or a point lies outside the source.
        """
        loaded = self.read(source)
        checked = check_points(points, loaded.image.size)
        return self.prepare(loaded, target).match_checked(checked, top_k)

    def prepare(self, source: Readable, target: Readable) -> PreparedPair:
        """Encode two images and, unless the head is linear, correlate them, to ask for points later."""
        return self._prepared(self.read(source), self.read(target))

    def match_many(self, source: Readable, targets: Iterable[Readable], points: ArrayLike) -> Iterator[MatchResult]:
        """Find the source's points in each of many targets; results come as they are ready."""
        loaded = self.read(source)
        checked = check_points(points, loaded.image.size)

        def results() -> Iterator[MatchResult]:
            encoded = self._encode(loaded)  # kept here, since many targets may evict it
            for target in targets:
                yield self._prepared(loaded, self.read(target), encoded).match_checked(checked)

        return results()

    def match_pairs(self, pairs: Iterable[tuple[Readable, Readable, ArrayLike]]) -> Iterator[MatchResult]:
        """Match each (source, target, points); results come as they are ready."""
        return (self.match(*pair) for pair in pairs)

    def encode(self, image: Readable) -> Encoded:
        """Return an image's features on the model's grid, computed once and kept."""
        return self._encode(self.read(image))

    def foreground(self, image: Readable) -> Bool[np.ndarray, "h w"]:
        """Return a mask of the main object on the model's grid, estimated from its features."""
        return find_foreground(self.encode(image))

    def suggest_points(self, image: Readable, count: int = 12) -> Pixels:
        """Return points spread evenly over the foreground, in the image's pixels."""
        loaded = self.read(image)
        return unit_to_pixels(spread_points(self.foreground(loaded), count), loaded.image.size)

    def with_cache_folder(self, folder: Path) -> "Matcher":
        """Return a matcher that shares the model and the memory with this one, and keeps encoded images in a folder."""
        other = copy(self)
        other._store = self._store.with_folder(folder)
        return other

    def for_many(self) -> "Matcher":
        """Return a matcher that shares the memory with this one and encodes many images in the least time.

        As many threads as its runtime's `at_once` says may call `read_encoded` at the same time.
        """
        runtime = self.runtime.for_many()
        if runtime is self.runtime:
            return self
        other = copy(self)
        other.runtime = runtime
        return other

    def evict(self, loaded: LoadedImage) -> None:
        """Drop from memory what was computed from an image."""
        self._store.evict(loaded.key)

    def clear_cache(self) -> None:
        """Drop all features and correlation maps from memory."""
        self._store.clear()

    def read(self, image: Readable) -> LoadedImage:
        """Decode an image and resize it for the model. What it returns can be passed wherever an image is expected."""
        if isinstance(image, LoadedImage):
            return image
        loaded = load_image(image)
        pixels = to_bytes(resize_square(loaded, self.runtime.side))
        return LoadedImage(loaded, pixels, digest(pixels))

    def read_encoded(self, image: Readable) -> LoadedImage:
        """Read an image and encode it; its features live as long as what this returns."""
        loaded = self.read(image)
        return replace(loaded, encoded=self._encode(loaded))

    def _prepared(self, source: LoadedImage, target: LoadedImage, encoded: Encoded | None = None) -> PreparedPair:
        """Prepare two images; `encoded` is the source's encoding, where it is at hand."""
        with self._computing, collection_paused():  # the first pair imports the kernels
            scores = (
                self._linear(source, target, encoded) if self.runtime.linear else self._whole(source, target, encoded)
            )
        return PreparedPair(
            source=source.image,
            target=target.image,
            scores=scores,
            transfer=self.runtime.transfer,
            calibration=self.calibration,
        )

    def _linear(self, source: LoadedImage, target: LoadedImage, encoded: Encoded | None) -> Scores:
        self.runtime.check_memory()
        if encoded is None:
            encoded = self._encode(source)
        return LinearScores(encoded, self._encode(target), self._correlate_at, self._correlate)

    def _whole(self, source: LoadedImage, target: LoadedImage, encoded: Encoded | None) -> Scores:
        key = (self.runtime.version, source.key, target.key)
        found = self._store.get(key)
        if found is None:
            self.runtime.check_memory()
            if encoded is None:
                encoded = self._encode(source)
            found = [self._correlate(encoded, self._encode(target))]
            self._store.put(key, found)
        return WholeMap(found[0])

    def _correlate(self, source: EncodedSource, target: EncodedTarget) -> Refined:
        with self._computing:
            return self.runtime.correlate(source, target)

    def _correlate_at(
        self, source: EncodedSource, target: EncodedTarget, weights: Float[np.ndarray, "keypoint source_position"]
    ) -> Float[np.ndarray, "keypoint ht wt"]:
        with self._computing:
            return self.runtime.correlate_at(source, target, weights)

    def _encode(self, loaded: LoadedImage) -> Encoded:
        """Return an image's encoding: its own, from memory, from disk, or computed."""
        if loaded.encoded is not None:
            return loaded.encoded
        key = (self.runtime.version, loaded.key)

        def name() -> str:
            # runtimes differ in the last bits, and a result must not depend on which of them filled the folder
            of_model = json.dumps(self.config), self.runtime.weights_hash(), type(self.runtime).__name__
            return f"{digest(*of_model)}-{loaded.key}"

        with self._computing if self.runtime.at_once == 1 else nullcontext():
            found = self._store.get(key, name)
            if found is None:
                found = [self.runtime.encode(loaded.pixels)]
                self._store.put(key, found, name)
        return found[0]
