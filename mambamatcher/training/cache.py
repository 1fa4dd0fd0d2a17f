"""A frozen backbone's features on disk, computed once per picture."""

from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from mambamatcher.matching.feature_store import DiskCache, digest
from mambamatcher.model.backbones import Backbone

Levels = list[Float[Tensor, "1 _ _ _"]]


class FeatureCache:
    """Levels named by what they come from: the pixels as the backbone sees them, and the backbone with its weights."""

    def __init__(self, folder: Path, backbone: Backbone, gigabytes: float) -> None:
        self._disk = DiskCache(folder, limit=int(gigabytes * 1e9))
        self._backbone = _fingerprint(backbone)

    def get(self, image: Float[Tensor, "3 height width"], compute: Callable[[], Levels]) -> Levels:
        """Return the levels of one picture, from its file if there is a good one."""
        name = digest(self._backbone, image)
        levels = self._disk.get(name)
        if levels is None:
            levels = compute()
            self._disk.put(name, levels)
        return levels


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
    state = backbone.state_dict()
    return digest(repr(backbone.config), *(state[name] for name in state if not name.startswith("projections")))
