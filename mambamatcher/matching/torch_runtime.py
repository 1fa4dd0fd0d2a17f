"""A PyTorch model as a runtime: any model, on any device."""

from collections.abc import Hashable
from hashlib import sha256
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from mambamatcher.errors import InputError
from mambamatcher.matching import memory_guard
from mambamatcher.matching.runtime import Encoded, EncodedSource, EncodedTarget, Pixels, Refined
from mambamatcher.model.config import to_dict
from mambamatcher.model.mambamatcher import MambaMatcher

FLOAT = 4


class TorchRuntime:
    """A PyTorch model on any device; arrays are converted at its border, on the CPU without a copy.

    Args:
        model: The model; it is put into evaluation mode.
        device: Where it computes, as PyTorch names it; None leaves it where it is.
        low_memory: Transform the weights of the feature aggregation for each image instead of keeping them.

    Raises:
        InputError: The device cannot compute.
    """

    at_once = 1

    def __init__(self, model: MambaMatcher, device: str | None = None, low_memory: bool = False) -> None:
        self.model = _moved(model, device).eval()
        self.config = to_dict(model.config)
        self.side = model.config.side
        self.transfer = model.config.transfer
        self.linear = model.linear
        self.low_memory = low_memory
        self.model.features.keep_transformed = not low_memory
        self._hash: tuple[Hashable, str] | None = None

    @property
    def version(self) -> Hashable:
        """Address and change count of every parameter and buffer."""
        tensors = chain(self.model.parameters(), self.model.buffers())
        # a tensor made in inference mode does not count its changes
        return tuple((each.data_ptr(), 0 if each.is_inference() else each._version) for each in tensors)

    def weights_hash(self) -> str:
        """Return a short digest of the weights as float32, wherever they are and however they were saved."""
        version = self.version
        if self._hash is None or self._hash[0] != version:
            hasher = sha256()
            for name, value in sorted(self.model.state_dict().items()):
                hasher.update(name.encode())
                hasher.update(value.detach().float().cpu().contiguous().numpy().tobytes())
            self._hash = version, hasher.hexdigest()[:16]
        return self._hash[1]

    def moved(self, device: str | None) -> "TorchRuntime":
        """Return a runtime of the same model on another device."""
        return TorchRuntime(self.model, device, self.low_memory)

    def for_many(self) -> "TorchRuntime":
        """Return this runtime, which uses every core for each image."""
        return self

    @torch.inference_mode()
    def encode(self, pixels: Pixels) -> Encoded:
        """Compute everything that depends on one image alone.

        Never batched: batching changes low-order bits, and the batch would depend on cache hits.
        """
        self._check_memory(pair=False)
        images = self._tensor(pixels)[None].float() / 255.0
        # convolutional backbones are faster in this layout, and transformers do not mind
        return _array(self.model.encode(images.contiguous(memory_format=torch.channels_last))[0])

    @torch.inference_mode()
    def correlate(self, source: EncodedSource, target: EncodedTarget) -> Refined:
        """Compute the refined correlation map of two encoded images."""
        return _array(self.model.correlate(self._tensor(source)[None], self._tensor(target)[None])[0])

    @torch.inference_mode()
    def correlate_at(
        self,
        source: EncodedSource,
        target: EncodedTarget,
        weights: Float[np.ndarray, "keypoint source_position"],
    ) -> Float32[np.ndarray, "keypoint ht wt"]:
        """Compute weighted sums of refined scores over source positions."""
        both = torch.stack([self._tensor(source), self._tensor(target)])
        first, second = (torch.tensor([index], device=both.device) for index in (0, 1))
        return _array(self.model.correlate_at(both, first, second, self._tensor(weights)[None].float())[0])

    def check_memory(self) -> None:
        """Refuse a pair that would not fit into memory."""
        self._check_memory(pair=True)

    def _check_memory(self, pair: bool) -> None:
        if self.model.backbone.mean.device.type == "cpu":
            stride = self.model.backbone.stride
            memory_guard.check_memory(lambda side: needed_bytes(self.model, side, pair), self.side, stride, pair)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.model.backbone.mean.device)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().contiguous().numpy()


def needed_bytes(model: MambaMatcher, side: int, pair: bool = True) -> int:
    """Estimate what matching one pair at this side takes at most, beyond the loaded model.

    Args:
        model: The model.
        side: Side of the images.
        pair: Whether to correlate two images too, not only to encode each.
    """
    grid = (side // model.backbone.stride, side // model.backbone.stride)
    positions = grid[0] * grid[1]
    levels = len(model.backbone.level_channels)
    views = 2 if model.config.mirror else 1
    features = 2 * views * levels * model.backbone.channels * positions * FLOAT
    # one image at a time, while the other's features are kept
    extracting = views * memory_guard.FLOATS_PER_PIXEL * side**2 * FLOAT + 2 * features
    aggregating = 2 * features + model.features.working_bytes(grid, views * levels)
    left = len(model.level_channels)
    correlating = 2 * features + positions**2 * (left * FLOAT + model.correlation.bytes_per_score(left))
    kept = model.features.kept_bytes(grid)
    return max(extracting, aggregating, correlating if pair else 0) + kept + memory_guard.LIBRARIES


def _moved(model: MambaMatcher, device: str | None) -> MambaMatcher:
    if device is None:
        return model
    try:
        torch.zeros((), device=device).item()
        return model.to(device)
    except (RuntimeError, AssertionError) as error:  # PyTorch has no error class for this
        reason = str(error).splitlines()[0].partition(". ")[0]
        raise InputError(f"cannot compute on the device {device!r}: {reason}") from error
