"""A store for arrays that took long to compute: recent ones in memory, all of them on disk where there is a folder."""

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from zlib import crc32

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import write_bytes_atomically

logger = logging.getLogger(__name__)

_SUFFIX, _CHECKSUM = ".safetensors", "crc32"

Key = tuple[Hashable, ...]


def digest(*parts: np.ndarray | str) -> str:
    """Return a name for exactly these values."""
    hasher = blake2b(digest_size=20)
    for part in parts:
        if isinstance(part, str):
            content = part.encode()
            hasher.update(f"text ({len(content)},)".encode())
            hasher.update(content)
        else:
            hasher.update(f"{part.dtype} {part.shape}".encode())
            hasher.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


class TensorStore:
    """Lists of arrays by key, safe to share between threads; a folder may be shared between processes.

    Args:
        memory_bytes: What stays in memory; the least recently used entries are evicted first.
        folder: Where entries are also kept on disk; without one, they are kept in memory only.
        disk_bytes: Limit of the folder; the least recently used files are removed first. None for no limit.
    """

    def __init__(self, memory_bytes: int = 0, folder: Path | None = None, disk_bytes: int | None = None) -> None:
        self._memory = _Memory(memory_bytes)
        self._disk = None if folder is None else _Disk(folder, disk_bytes)

    def __deepcopy__(self, memo: dict[int, object]) -> "TensorStore":
        """Return the store itself: copies of a module share what it keeps."""
        return self

    def with_folder(self, folder: Path) -> "TensorStore":
        """Return a store that shares the memory of this one and has a folder."""
        store = TensorStore(0, folder)
        store._memory = self._memory
        return store

    def get(self, key: Key, name: Callable[[], str] | None = None) -> list[np.ndarray] | None:
        """Return an entry, or None.

        Args:
            key: Names the entry in memory.
            name: Gives its file's name, which may be costly to compute; without one, the disk is not searched.
        """
        found = self._memory.get(key)
        if found is None and self._disk is not None and name is not None:
            found = self._disk.get(name())
            if found is not None:
                self._memory.put(key, found)
        return found

    def put(self, key: Key, arrays: Sequence[np.ndarray], name: Callable[[], str] | None = None) -> None:
        """Keep an entry in memory and, given a name, on disk."""
        self._memory.put(key, list(arrays))
        if self._disk is not None and name is not None:
            self._disk.put(name(), arrays)

    def evict(self, part: Hashable) -> None:
        """Drop from memory every entry whose key has this part."""
        self._memory.evict(part)

    def clear(self) -> None:
        """Drop every entry from memory."""
        self._memory.clear()


class _Memory:
    """Entries up to a number of bytes; the least recently used are evicted first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[Key, list[np.ndarray]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: Key) -> list[np.ndarray] | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: Key, arrays: list[np.ndarray]) -> None:
        size = _bytes(arrays)
        if size > self.limit:
            return
        with self._lock:
            self._drop(key)
            self._entries[key] = arrays
            self._size += size
            while self._size > self.limit:
                self._drop(next(iter(self._entries)))

    def evict(self, part: Hashable) -> None:
        with self._lock:
            for key in [key for key in self._entries if part in key]:
                self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _drop(self, key: Key) -> None:
        dropped = self._entries.pop(key, None)
        self._size -= _bytes(dropped or [])


class _Disk:
    """Entries in a folder of their own, one file each.

    Files appear whole or not at all, and every reader compares the values with the checksum stored beside them. What
    cannot be read or written is computed again, with a warning. Each writer after the first may exceed the limit by a
    tenth.
    """

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot use {folder} as a cache folder: {error.strerror}") from error
        self.folder = folder
        self.limit = limit
        self._room = 0  # bytes to write before the folder is measured again
        self._has_failed = False

    def get(self, name: str) -> list[np.ndarray] | None:
        path = self._path(name)
        try:
            with safe_open(path, framework="np") as file:
                arrays = [file.get_tensor(str(index)) for index in range(len(file.keys()))]
                written = (file.metadata() or {}).get(_CHECKSUM)
        except FileNotFoundError:
            return None
        except RuntimeError:  # safetensors, where another process removed the file while it was being opened
            return None
        except (OSError, SafetensorError) as error:
            logger.warning("the cache entry %s is damaged and will be computed again: %s", path, error)
            return None
        if _checksum(arrays) != written:
            logger.warning("the cache entry %s is damaged and will be computed again: its values have changed", path)
            return None
        with suppress(OSError):  # another process removed it, or the folder is read-only
            os.utime(path)
        return arrays

    def put(self, name: str, arrays: Sequence[np.ndarray]) -> None:
        own = [np.array(each, order="C") for each in arrays]
        content = save({str(index): each for index, each in enumerate(own)}, {_CHECKSUM: _checksum(own)})
        if self.limit is not None and len(content) > self.limit:
            return
        try:
            self._make_room(len(content))
            write_bytes_atomically(self._path(name), content, overwrite=True)
        except (OSError, InputError) as error:
            if not self._has_failed:  # a full disk concerns every entry
                logger.warning("cannot keep %s in the cache (reported only once): %s", self._path(name), error)
            self._has_failed = True

    def _make_room(self, needed: int) -> None:
        if self.limit is None:
            return
        if needed > self._room:
            files = self._files()
            size = sum(each for _, each, _ in files)
            tenth = self.limit // 10
            # a tenth at once, so that not every entry measures the folder
            target = self.limit if size + needed <= self.limit else self.limit - tenth
            for _, freed, path in sorted(files):
                if size + needed <= target:
                    break
                path.unlink(missing_ok=True)
                size -= freed
            self._room = max(needed, min(self.limit - size, tenth))
        self._room -= needed

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return when each file was last used, its size and its path, including files that a killed process left."""
        files = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):  # another process removed it
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        return files

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_SUFFIX}"


def _checksum(arrays: Sequence[np.ndarray]) -> str:
    """Return a number that damage would change; a cryptographic digest would take four times as long."""
    value = 0
    for each in arrays:
        value = crc32(
            np.ascontiguousarray(each).reshape(-1).view(np.uint8).data,
            crc32(f"{each.dtype} {each.shape}".encode(), value),
        )
    return f"{value:08x}"


def _bytes(arrays: Sequence[np.ndarray]) -> int:
    return sum(each.nbytes for each in arrays)
