"""Scenes and sets that several tests build on."""

from functools import cache

import numpy as np

from mambamatcher.datasets.synthetic import CATEGORIES, SyntheticPair, SyntheticPairs
from mambamatcher.datasets.synthetic.camera import Viewpoint
from mambamatcher.datasets.synthetic.scene import Scene, draw_scene

SIZE = (144, 112)  # width and height differ, so a swapped axis fails


@cache
def some_pairs() -> tuple[SyntheticPair, ...]:
    pairs = SyntheticPairs(30, seed=4, size=SIZE)
    return tuple(pairs[index] for index in range(len(pairs)))


def typical(category: str, yaw: float, seed: int = 0) -> Scene:
    """Show the middle of all ranges, unhidden and whole in the image, without roll."""
    drawn = draw_scene(category, yaw, np.random.default_rng(seed))
    return Scene(
        category=category,
        parameters=CATEGORIES[category].typical(),
        coat=drawn.coat,
        viewpoint=Viewpoint(yaw),
        backdrop=drawn.backdrop,
    )
