"""Keeping tensors that took long to compute: the latest in memory, and any number on disk."""

import logging
import os
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from threading import Lock

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import write_atomically

logger = logging.getLogger(__name__)

_SUFFIX, _DIGEST = ".safetensors", "digest"

Key = tuple[Hashable, ...]


def digest(*parts: Tensor | str) -> str:
    """Return a name for exactly these values."""
    hasher = blake2b(digest_size=20)
    for part in parts:
        if isinstance(part, str):
            content = part.encode()
            hasher.update(f"text ({len(content)},)".encode())
            hasher.update(content)
        else:
            hasher.update(f"{part.dtype} {tuple(part.shape)}".encode())
            hasher.update(part.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
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
        self._entries: OrderedDict[Key, Tensor] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: Key) -> Tensor | None:
        """Return the tensor of this key, if it is still there."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: Key, tensor: Tensor) -> None:
        """Keep a tensor; one larger than the whole cache is not kept."""
        if tensor.nbytes > self.limit:
            return
        with self._lock:
            self._drop(key)
            self._entries[key] = tensor
            self._size += tensor.nbytes
            while self._size > self.limit:
                self._drop(next(iter(self._entries)))

    def forget(self, part: Hashable) -> None:
        """Drop every tensor whose key has this part."""
        with self._lock:
            for key in [key for key in self._entries if part in key]:
                self._drop(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _drop(self, key: Key) -> None:
        dropped = self._entries.pop(key, None)
        self._size -= 0 if dropped is None else dropped.nbytes


class DiskCache:
    """Lists of tensors by name in a folder of their own, one file each, up to a number of bytes if there is a `limit`.

    Any number of threads and processes may share a folder: files appear whole or not at all, and every reader compares
    the values with the digest written beside them. What cannot be read or written is computed again, with a warning.
    Beyond the limit the least recently used files go first; each writer after the first may exceed it by a tenth.
    """

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot use {folder} as a cache folder: {error.strerror}") from error
        self.folder = folder
        self.limit = limit
        self._room = 0  # bytes that can be written before looking again at what all writers have left
        self._has_failed = False

    def get(self, name: str) -> list[Tensor] | None:
        """Read the tensors of this name, unless they are missing or not what was written."""
        path = self._path(name)
        try:
            with safe_open(path, framework="pt") as file:
                tensors = [file.get_tensor(str(index)) for index in range(len(file.keys()))]
                written = (file.metadata() or {}).get(_DIGEST)
        except FileNotFoundError:
            return None
        except (OSError, SafetensorError) as error:
            logger.warning("the cache entry %s is damaged and will be made anew: %s", path, error)
            return None
        if digest(*tensors) != written:
            logger.warning("the cache entry %s is damaged and will be made anew: its values have changed", path)
            return None
        with suppress(OSError):  # another process made room, or the folder is for reading only
            os.utime(path)
        return tensors

    def put(self, name: str, tensors: Sequence[Tensor]) -> None:
        """Write tensors, in place of any of that name; those larger than the limit are not kept."""
        # copies, because safetensors refuses tensors that share memory
        own = [tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for tensor in tensors]
        content = save({str(index): tensor for index, tensor in enumerate(own)}, {_DIGEST: digest(*own)})
        if self.limit is not None and len(content) > self.limit:
            return
        try:
            self._make_room(len(content))
            write_atomically(self._path(name), lambda path: _write(path, content), overwrite=True)
        except (OSError, InputError) as error:
            if not self._has_failed:  # a full disk concerns every entry
                logger.warning("cannot keep %s in the cache (said only once): %s", self._path(name), error)
            self._has_failed = True

    def _make_room(self, needed: int) -> None:
        if self.limit is None:
            return
        if needed > self._room:
            files = self._files()
            size = sum(each for _, each, _ in files)
            tenth = self.limit // 10
            # a tenth at once, so that not every entry looks around
            target = self.limit if size + needed <= self.limit else self.limit - tenth
            for _, freed, path in sorted(files):
                if size + needed <= target:
                    break
                path.unlink(missing_ok=True)
                size -= freed
            self._room = max(needed, min(self.limit - size, tenth))
        self._room -= needed

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return when each file was last used, its size and path, also of those a killed process left unfinished."""
        files = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):  # another process made room
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        return files

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_SUFFIX}"


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
