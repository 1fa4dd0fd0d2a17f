"""Keeping tensors that took long to compute: the latest in memory, and any number on disk."""

import logging
from collections import OrderedDict
from collections.abc import Hashable
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from threading import Lock

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from mambamatcher.errors import InputError
from mambamatcher.files import write_atomically

logger = logging.getLogger(__name__)

_TENSOR, _DIGEST = "tensor", "digest"


def digest(*tensors: Tensor) -> str:
    """Return a name for exactly these values."""
    hasher = blake2b(digest_size=20)
    for tensor in tensors:
        hasher.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        hasher.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return hasher.hexdigest()


def stamp(module: nn.Module) -> Hashable:
    """Return a value that changes when a parameter or buffer is exchanged or written to, without reading any."""
    tensors = chain(module.parameters(), module.buffers())
    # one made in inference mode does not count its changes
    return tuple((each.data_ptr(), 0 if each.is_inference() else each._version) for each in tensors)


class MemoryCache:
    """Tensors by key, up to a number of bytes; the least recently used go first. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[Hashable, Tensor] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> Tensor | None:
        """Return the tensor of this key, if it is still there."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: Hashable, tensor: Tensor) -> None:
        """Keep a tensor; one larger than the whole cache is not kept."""
        if tensor.nbytes > self.limit:
            return
        with self._lock:
            self._drop(key)
            self._entries[key] = tensor
            self._size += tensor.nbytes
            while self._size > self.limit:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _drop(self, key: Hashable) -> None:
        dropped = self._entries.pop(key, None)
        self._size -= 0 if dropped is None else dropped.nbytes


class DiskCache:
    """Tensors by name in a folder, one file each. What cannot be read or written is computed again, with a warning."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot use {folder} as a cache folder: {error.strerror}") from error
        self.folder = folder

    def get(self, name: str) -> Tensor | None:
        """Read a tensor, unless it is missing or not what was written."""
        path = self._path(name)
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                tensor = file.get_tensor(_TENSOR)
                written = (file.metadata() or {}).get(_DIGEST)
        except (OSError, SafetensorError) as error:
            logger.warning("the cache entry %s is damaged and will be made anew: %s", path, error)
            return None
        if digest(tensor) != written:
            logger.warning("the cache entry %s is damaged and will be made anew: its values have changed", path)
            return None
        return tensor

    def put(self, name: str, tensor: Tensor) -> None:
        """Write a tensor, in place of any of that name."""
        tensor = tensor.cpu().contiguous()
        metadata = {_DIGEST: digest(tensor)}
        try:
            write_atomically(
                self._path(name), lambda path: save_file({_TENSOR: tensor}, path, metadata), overwrite=True
            )
        except (OSError, InputError, SafetensorError) as error:
            logger.warning("cannot keep %s in the cache: %s", self._path(name), error)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"
