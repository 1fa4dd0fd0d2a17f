"""A frozen backbone's features on disk, computed once per picture."""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mambamatcher.backbones import Backbone

Levels = list[Float[Tensor, "1 _ _ _"]]


class FeatureCache:
    """Files named by what they hold: the pixels as the backbone sees them, and the backbone with its weights.

    Any number of processes may share a folder: files appear whole or not at all, and two processes that compute the
    same one write the same bytes. A file that cannot be read is computed again. Beyond `gigabytes`, the files that
    were not used for longest go first.
    """

    def __init__(self, folder: Path, backbone: Backbone, gigabytes: float) -> None:
        self.folder = folder
        self.capacity = int(gigabytes * 1e9)
        self.prefix = _fingerprint(backbone)
        folder.mkdir(parents=True, exist_ok=True)
        self._size = sum(path.stat().st_size for path in self._files())

    def get(self, image: Float[Tensor, "3 height width"], compute: Callable[[], Levels]) -> Levels:
        """Return the levels of one picture, from its file if there is a good one."""
        path = self.folder / f"{_digest(self.prefix.encode(), image)}.safetensors"
        try:
            stored = load_file(path)
            os.utime(path)
            return [stored[str(index)] for index in range(len(stored))]
        except FileNotFoundError:
            pass
        except (OSError, SafetensorError, KeyError):
            path.unlink(missing_ok=True)
        levels = compute()
        self._store(path, levels)
        return levels

    def _store(self, path: Path, levels: Levels) -> None:
        needed = sum(level.numel() * level.element_size() for level in levels)
        self._make_room(needed)
        with NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as handle:
            temporary = Path(handle.name)
        try:
            save_file({str(index): level.contiguous() for index, level in enumerate(levels)}, temporary)
            os.replace(temporary, path)
            self._size += needed
        except (OSError, SafetensorError):
            pass  # a full disk costs time, not the run
        finally:
            temporary.unlink(missing_ok=True)

    def _make_room(self, needed: int) -> None:
        if self._size + needed <= self.capacity:
            return
        files = []
        for path in self._files():
            try:
                files.append((path.stat().st_mtime, path.stat().st_size, path))
            except FileNotFoundError:
                continue  # another process made room
        self._size = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if self._size + needed <= 0.9 * self.capacity:  # a tenth at once, so that not every picture looks around
                break
            path.unlink(missing_ok=True)
            self._size -= size

    def _files(self) -> list[Path]:
        return list(self.folder.glob("*.safetensors"))


def cached_levels(
    backbone: Backbone, images: Float[Tensor, "batch 3 height width"], cache: FeatureCache
) -> list[Float[Tensor, "batch _ _ _"]]:
    """Return a batch's raw levels, each picture's from the cache."""

    def compute(image: Tensor) -> Levels:
        with torch.no_grad():
            return backbone.raw_levels(image[None])

    per_image = [cache.get(image, lambda image=image: compute(image)) for image in images]  # type: ignore[misc]
    return [torch.cat(level) for level in zip(*per_image, strict=True)]


def _fingerprint(backbone: Backbone) -> str:
    """Name the layers and facets asked for and every frozen weight."""
    digest = sha256(repr(backbone.config).encode())
    for name, value in sorted(backbone.state_dict().items()):
        if not name.startswith("projections"):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


def _digest(prefix: bytes, image: Tensor) -> str:
    digest = sha256(prefix + str(tuple(image.shape)).encode())
    digest.update(image.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
