"""What `Matcher` needs of a model: the seam behind which a runtime stands. All of it is NumPy."""

from collections.abc import Hashable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32, UInt8

from mambamatcher.model.transfer_settings import Transfer

Pixels = UInt8[np.ndarray, "3 side side"]
Encoded = Float32[np.ndarray, "level channel h w"]
EncodedSource = Float32[np.ndarray, "level channel hs ws"]
EncodedTarget = Float32[np.ndarray, "level channel ht wt"]
Refined = Float32[np.ndarray, "refined_hs refined_ws refined_ht refined_wt"]


@runtime_checkable
class Runtime(Protocol):
    """Encodes images and correlates pairs of them. Calls come one at a time, except for `encode`.

    Attributes:
        config: Configuration of the model as plain values, as in `config.json`.
        side: Side of the square images that it encodes.
        transfer: How target points are read from refined scores.
        linear: Whether rows of the map can be computed alone and the map is the same from both sides.
        at_once: How many threads may call `encode` at the same time.
    """

    config: dict[str, Any]
    side: int
    transfer: Transfer
    linear: bool
    at_once: int

    @property
    def version(self) -> Hashable:
        """A value that changes whenever the weights do; cheap to get."""
        ...

    def weights_hash(self) -> str:
        """Return a short name for exactly these weights, the same in every process and runtime."""
        ...

    def moved(self, device: str | None) -> "Runtime":
        """Return this runtime on another device; None leaves it where it is. A runtime can be pickled."""
        ...

    def for_many(self) -> "Runtime":
        """Return the runtime with which encoding many images takes the least time."""
        ...

    def encode(self, pixels: Pixels) -> Encoded:
        """Compute everything that depends on one image alone."""
        ...

    def correlate(self, source: EncodedSource, target: EncodedTarget) -> Refined:
        """Compute the refined correlation map of two encoded images."""
        ...

    def correlate_at(
        self,
        source: EncodedSource,
        target: EncodedTarget,
        weights: Float[np.ndarray, "keypoint source_position"],
    ) -> Float32[np.ndarray, "keypoint ht wt"]:
        """Compute weighted sums of refined scores over source positions; a linear head computes no others."""
        ...

    def check_memory(self) -> None:
        """Refuse a pair that would not fit into memory."""
        ...
