"""Scenes and sets that several tests build on."""

from functools import cache

import numpy as np

from mambamatcher.datasets.synthetic import CATEGORIES, SyntheticPair, SyntheticPairs, Variation
from mambamatcher.datasets.synthetic.backdrop import SHAPE_COLUMNS
from mambamatcher.datasets.synthetic.camera import Viewpoint
from mambamatcher.datasets.synthetic.coats import draw_coat
from mambamatcher.datasets.synthetic.draw import draw_scene
from mambamatcher.datasets.synthetic.scene import Instance, Scene

SIZE = (144, 112)  # width and height differ, so a swapped axis fails
NO_OBSTACLES = Variation(occlusion=0.0, company=0.0, truncation=0.0)


@cache
def some_pairs() -> tuple[SyntheticPair, ...]:
    pairs = SyntheticPairs(30, seed=4, size=SIZE)
    return tuple(pairs[index] for index in range(len(pairs)))


def typical(category: str, yaw: float, seed: int = 0) -> Scene:
    """Show the middle of all ranges, alone and whole in the picture, without roll."""
    rng = np.random.default_rng(seed)
    scene = draw_scene(category, yaw, NO_OBSTACLES, rng)
    model = CATEGORIES[category]
    main = Instance(category, model.middle(), draw_coat(model.coat, rng))
    return Scene(main=main, viewpoint=Viewpoint(yaw), backdrop=scene.backdrop)


def plank(x: float, half_width: float) -> np.ndarray:
    """Stand an upright box before the picture; boxes are the odd shapes, so an ellipse out of sight goes first."""
    shapes = np.ones((2, SHAPE_COLUMNS))
    shapes[0, :5] = -5.0, -5.0, 0.1, 0.1, 0.0
    shapes[1, :5] = x, 0.5, half_width, 2.0, 0.0
    return shapes
