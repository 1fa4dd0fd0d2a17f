"""The synthetic set: an endless supply of pairs of which everything is known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from mambamatcher.datasets.synthetic.category import CATEGORIES
from mambamatcher.datasets.synthetic.raster import surface_points, transfer
from mambamatcher.datasets.synthetic.render import SyntheticView, render
from mambamatcher.datasets.synthetic.scene import Scene, draw_scene, draw_yaws
from mambamatcher.errors import InputError

_SMALLEST, _LARGEST = 32, 4096
_LEAST_SHARED = 3
# The front and one side of an object show.
_INFORMATIVE_YAW = 60.0


class DenseCorrespondence(NamedTuple):
    """Where each source pixel centre on the object lies in the target, in (x, y) pixels.

    `valid` holds where the point is seen in both images. On the object but not valid, the position is the true place of
    a hidden point; off the object it has no meaning.
    """

    positions: Float[np.ndarray, "height width 2"]
    valid: Bool[np.ndarray, "height width"]


@dataclass(frozen=True, eq=False)
class SyntheticPair:
    """Two instances of one category; points are transferred from `source` to `target`."""

    source: SyntheticView
    target: SyntheticView

    @property
    def category(self) -> str:
        """Return the category of both objects."""
        return self.source.category

    @property
    def shared(self) -> Bool[np.ndarray, " keypoint"]:
        """Return which keypoints are seen in both images."""
        return self.source.visible & self.target.visible

    @property
    def mirrored(self) -> bool:
        """Return whether the two objects face opposite edges of their images."""
        return self.source.facing != self.target.facing

    @cached_property
    def correspondence(self) -> DenseCorrespondence:
        """Transfer every source pixel by the surface that both instances share; exact, without a search."""
        height, width = self.source.mask.shape
        positions, valid = np.zeros((height, width, 2), np.float32), np.zeros((height, width), bool)
        points = surface_points(self.source.buffer, self.source.mesh)
        place = points.rows, points.columns
        positions[place], valid[place] = transfer(points, self.target.buffer, self.target.mesh)
        return DenseCorrespondence(positions, valid)


class SyntheticPairs:
    """Pairs rendered on request; pair i depends only on `seed`, i and the settings.

    A pair with fewer than three keypoints seen in both images is made easier until it has them. All random numbers come
    from integer counters and are the same everywhere; so are the bytes, wherever the mathematical library rounds alike.

    Args:
        length: The number of pairs.
        seed: Sets of different seeds have nothing in common.
        size: `(width, height)` of the images.
        categories: Names to draw from; all by default.

    Raises:
        InputError: A setting is out of range.
        ConfigError: A category is unknown.
    """

    def __init__(
        self,
        length: int = 10_000,
        *,
        seed: int = 0,
        size: tuple[int, int] = (256, 256),
        categories: Sequence[str] | None = None,
    ) -> None:
        if length < 0:
            raise InputError(f"length must not be negative, got {length}")
        if not 0 <= seed < 1 << 64:
            raise InputError(f"seed must lie in [0, 2**64), got {seed}")
        if len(size) != 2 or not all(_SMALLEST <= side <= _LARGEST for side in size):
            raise InputError(f"an image needs sides from {_SMALLEST} to {_LARGEST} pixels, got size {size}")
        self.categories = tuple(CATEGORIES if categories is None else categories)
        if not self.categories:
            raise InputError("no categories given; leave them out to have all")
        for name in self.categories:
            CATEGORIES[name]
        self.length, self.seed, self.size = length, seed, size

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> SyntheticPair:
        """Render pair `index`; negative indices count from the end."""
        if not -self.length <= index < self.length:
            raise IndexError(f"pair {index} of a synthetic set of {self.length}")
        # Philox is counter-based: (seed, index) is its key, so no pair depends on another having been drawn.
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, index % self.length], np.uint64)))
        category = self.categories[int(rng.integers(len(self.categories)))]
        source, target = (draw_scene(category, yaw, rng) for yaw in draw_yaws(rng))
        for scenes in _ever_easier(source, target):
            pair = SyntheticPair(*(render(scene, self.size) for scene in scenes))
            if pair.shared.sum() >= _LEAST_SHARED:
                break
        return pair


def _ever_easier(source: Scene, target: Scene) -> Iterator[tuple[Scene, Scene]]:
    """Yield two scenes as drawn, then in full view from the source's side, at last from a side that shows much."""
    yield source, target
    for yaw in (source.viewpoint.yaw, _INFORMATIVE_YAW):
        yield source.in_full_view(yaw), target.in_full_view(yaw)
