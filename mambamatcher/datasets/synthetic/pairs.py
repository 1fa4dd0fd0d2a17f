"""The synthetic set: an endless supply of pairs of which everything is known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from mambamatcher.datasets.synthetic.draw import Variation, draw_scene, draw_yaws, seen_from, unobstructed
from mambamatcher.datasets.synthetic.parts import CATEGORIES, topology
from mambamatcher.datasets.synthetic.raster import carry
from mambamatcher.datasets.synthetic.render import finish
from mambamatcher.datasets.synthetic.scene import Scene
from mambamatcher.datasets.synthetic.stage import set_up
from mambamatcher.datasets.synthetic.view import SyntheticView
from mambamatcher.errors import InputError

_SMALLEST, _LARGEST = 32, 4096
_LEAST_SHARED = 3
_USUAL = Variation()
# Front and one side of an object show.
_TELLING_YAW = 60.0


class DenseCorrespondence(NamedTuple):
    """Where each source pixel centre on the object lies in the target, in (x, y) pixels.

    `valid` holds where the point is seen in both pictures. On the object but not valid, the position is the true place
    of a hidden point; off the object it has no meaning.
    """

    positions: Float[np.ndarray, "height width 2"]
    valid: Bool[np.ndarray, "height width"]


@dataclass(frozen=True, eq=False)
class SyntheticPair:
    """Two instances of one category; points go from `source` to `target`."""

    source: SyntheticView
    target: SyntheticView

    @property
    def category(self) -> str:
        """Return the category of both main objects."""
        return self.source.category

    @property
    def shared(self) -> Bool[np.ndarray, " keypoint"]:
        """Say which keypoints are seen in both pictures."""
        return self.source.visible & self.target.visible

    @property
    def mirrored(self) -> bool:
        """Say whether the two objects face opposite edges of their pictures."""
        return self.source.facing != self.target.facing

    @cached_property
    def correspondence(self) -> DenseCorrespondence:
        """Carry every source pixel through the surface that both instances share; exact, without a search."""
        surfaces = (self.source.surface, self.target.surface)
        shared = topology(CATEGORIES[self.category])
        return DenseCorrespondence(*carry(surfaces, (shared.on(self.source.screen), shared.on(self.target.screen))))

    def reversed(self) -> "SyntheticPair":
        """Return the pair with source and target exchanged."""
        return SyntheticPair(self.target, self.source)


class SyntheticPairs:
    """Pairs rendered when they are asked for; pair i depends on `seed`, i and the settings only.

    `size` is `(width, height)`. A pair with fewer than three keypoints seen in both pictures is made easier until it
    has them. All draws come from integer counters and are the same everywhere; bytes are the same wherever the
    mathematical library rounds alike.
    """

    def __init__(
        self,
        length: int = 10_000,
        *,
        seed: int = 0,
        size: tuple[int, int] = (256, 256),
        categories: Sequence[str] | None = None,
        variation: Variation = _USUAL,
        supersample: int = 1,
    ) -> None:
        if length < 0:
            raise InputError(f"length must not be negative, got {length}")
        if not 0 <= seed < 1 << 64:
            raise InputError(f"seed must lie in [0, 2**64), got {seed}")
        if len(size) != 2 or not all(_SMALLEST <= side <= _LARGEST for side in size):
            raise InputError(f"a picture needs sides from {_SMALLEST} to {_LARGEST} pixels, got size {size}")
        if supersample < 1 or supersample % 2 == 0:
            raise InputError(f"supersample must be odd (1, 3, 5, ...), got {supersample}")
        self.categories = tuple(CATEGORIES if categories is None else categories)
        if not self.categories:
            raise InputError("no categories given; leave them out to have all")
        for name in self.categories:
            CATEGORIES[name]
        self.length, self.seed, self.size = length, seed, size
        self.variation, self.supersample = variation, supersample

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> SyntheticPair:
        """Render pair `index`; negative indices count from the end."""
        if not -self.length <= index < self.length:
            raise IndexError(f"pair {index} of a synthetic set of {self.length}")
        # Philox is counter-based: (seed, index) is its key, so no pair depends on another having been drawn.
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, index % self.length], np.uint64)))
        category = self.categories[int(rng.integers(len(self.categories)))]
        source_yaw, target_yaw = draw_yaws(self.variation, rng)
        source = draw_scene(category, source_yaw, self.variation, rng)
        target = draw_scene(category, target_yaw, self.variation, rng)
        for scenes in _ever_easier(source, target):
            stages = [set_up(scene, self.size, self.supersample) for scene in scenes]
            if int((stages[0].visible & stages[1].visible).sum()) >= _LEAST_SHARED:
                break
        return SyntheticPair(finish(scenes[0], stages[0]), finish(scenes[1], stages[1]))


def _ever_easier(source: Scene, target: Scene) -> Iterator[tuple[Scene, Scene]]:
    """Yield two scenes as drawn, then without obstacles, then from the same side, last from a side that shows much."""
    yield source, target
    source, target = unobstructed(source), unobstructed(target)
    yield source, target
    yield source, seen_from(target, source.viewpoint.yaw)
    yield seen_from(source, _TELLING_YAW), seen_from(target, _TELLING_YAW)
