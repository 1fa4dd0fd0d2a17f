"""What `Matcher` needs of a model: the seam behind which a runtime stands."""

from collections.abc import Hashable
from hashlib import sha256
from itertools import chain
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from mambamatcher.errors import InputError
from mambamatcher.matching.memory_guard import check_memory
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig

Encoded = Float[Tensor, "1 level channel h w"]


@runtime_checkable
class Runtime(Protocol):
    """Encodes images and correlates pairs of them. Calls come one at a time."""

    config: ModelConfig

    @property
    def version(self) -> Hashable:
        """A value that changes whenever the weights do; cheap to get."""
        ...

    def weights_hash(self) -> str:
        """Return a short name for exactly these weights, the same in every process."""
        ...

    def moved(self, device: str | None) -> "Runtime":
        """Return this runtime on another device; None leaves it where it is. A runtime can be pickled."""
        ...

    def encode(self, pixels: UInt8[Tensor, "3 side side"]) -> Encoded:
        """Compute everything that depends on one image alone."""
        ...

    def correlate(self, source: Encoded, target: Encoded) -> Float[Tensor, "1 hs ws ht wt"]:
        """Compute the refined correlation map of two encoded images."""
        ...

    def check_memory(self) -> None:
        """Refuse a pair that would not fit into memory."""
        ...


class TorchRuntime:
    """A PyTorch model on any device.

    Args:
        model: The model; it is put into evaluation mode.
        device: Where it computes, as PyTorch names it; None leaves it where it is.
        low_memory: Transform the weights of the feature aggregation for each image instead of keeping them.

    Raises:
        InputError: The device cannot compute.
    """

    def __init__(self, model: MambaMatcher, device: str | None = None, low_memory: bool = False) -> None:
        self.model = _moved(model, device).eval()
        self.config = model.config
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

    @torch.inference_mode()
    def encode(self, pixels: UInt8[Tensor, "3 side side"]) -> Encoded:
        """Compute everything that depends on one image alone.

        Never batched: batching changes low-order bits, and the batch would depend on cache hits.
        """
        check_memory(self.model, self.config.side, pair=False)
        images = pixels[None].to(self.model.backbone.mean.device).float() / 255.0
        # convolutional backbones are faster in this layout, and transformers do not mind
        return self.model.encode(images.contiguous(memory_format=torch.channels_last))

    @torch.inference_mode()
    def correlate(self, source: Encoded, target: Encoded) -> Float[Tensor, "1 hs ws ht wt"]:
        """Compute the refined correlation map of two encoded images."""
        device = self.model.backbone.mean.device
        return self.model.correlate(source.to(device), target.to(device))

    def check_memory(self) -> None:
        """Refuse a pair that would not fit into memory."""
        check_memory(self.model, self.config.side)


def _moved(model: MambaMatcher, device: str | None) -> MambaMatcher:
    if device is None:
        return model
    try:
        torch.zeros((), device=device).item()
        return model.to(device)
    except (RuntimeError, AssertionError) as error:  # PyTorch has no error class for this
        reason = str(error).splitlines()[0].partition(". ")[0]
        raise InputError(f"cannot compute on the device {device!r}: {reason}") from error
