"""One fixed pair for demonstrations: two dogs of different build, coat, pose and view."""

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.synthetic.backdrop import SHAPE_COLUMNS, Backdrop
from mambamatcher.datasets.synthetic.camera import Placement, Viewpoint
from mambamatcher.datasets.synthetic.coats import Coat, Colour
from mambamatcher.datasets.synthetic.pairs import SyntheticPair
from mambamatcher.datasets.synthetic.parts import CATEGORIES
from mambamatcher.datasets.synthetic.render import render
from mambamatcher.datasets.synthetic.scene import Instance, Lamp, Scene
from mambamatcher.datasets.synthetic.shade import Pattern

_SIDE = 480
_SUPERSAMPLE = 3


def sample_pair() -> SyntheticPair:
    """Return a pair of 480 x 480 pictures that never changes."""
    size = (_SIDE, _SIDE)
    return SyntheticPair(render(_source(), size, _SUPERSAMPLE), render(_target(), size, _SUPERSAMPLE))


def _dog(changes: dict[str, float]) -> dict[str, float]:
    """Start from the middle of the dog's ranges."""
    return CATEGORIES["dog"].middle() | changes


def _palette(coat: Colour, *, trim: Colour, ears: Colour, second: Colour) -> Float[np.ndarray, "row 3"]:
    return np.array([coat, trim, (0.015, 0.012, 0.012), (0.8, 0.8, 0.8), ears, second])


def _meadow() -> Backdrop:
    return Backdrop(
        sky=np.array([[0.42, 0.55, 0.68], [0.62, 0.68, 0.66]]),
        ground=np.array([[0.24, 0.33, 0.12], [0.16, 0.27, 0.07]]),
        horizon=0.34,
        blur=0.06,
        mottle=0.5,
        detail=0.35,
        shapes=np.empty((0, SHAPE_COLUMNS)),
        seed=3,
    )


def _floor() -> Backdrop:
    return Backdrop(
        sky=np.array([[0.58, 0.52, 0.44], [0.66, 0.60, 0.52]]),
        ground=np.array([[0.34, 0.24, 0.16], [0.42, 0.30, 0.20]]),
        horizon=0.40,
        blur=0.02,
        mottle=0.15,
        detail=0.08,
        shapes=np.empty((0, SHAPE_COLUMNS)),
        seed=5,
    )


def _source() -> Scene:
    brown = _palette((0.42, 0.22, 0.08), trim=(0.70, 0.56, 0.38), ears=(0.22, 0.10, 0.04), second=(0.80, 0.74, 0.62))
    build = {"leg": 0.46, "girth": 0.235, "neck": 0.36, "ear": 1.0, "ear_width": 0.42, "droop": 0.72}
    walk = {"L_front_swing": 14.0, "R_front_swing": -10.0, "L_hind_swing": -14.0, "R_hind_swing": 10.0}
    bearing = {"head_turn": -14.0, "head_tilt": -8.0, "tail_angle": 25.0}
    return Scene(
        main=Instance("dog", _dog(build | walk | bearing), Coat(brown, Pattern.BELLY, amount=0.22, grain=0.45, seed=7)),
        viewpoint=Viewpoint(yaw=58.0, pitch=9.0),
        backdrop=_meadow(),
        placement=Placement((0.5, 0.53), 0.84),
        lamp=Lamp((0.35, -0.8, -0.6), strength=1.05, ambient=0.42),
    )


def _target() -> Scene:
    white = _palette((0.80, 0.77, 0.70), trim=(0.82, 0.78, 0.70), ears=(0.05, 0.04, 0.04), second=(0.06, 0.05, 0.05))
    build = {"leg": 0.52, "girth": 0.21, "neck": 0.36, "ear": 0.85, "ear_width": 0.32, "droop": 0.05}
    walk = {"L_front_swing": 20.0, "R_front_swing": -4.0, "L_hind_swing": -20.0, "R_hind_swing": 4.0}
    bearing = {"head_turn": -30.0, "head_tilt": -4.0, "tail_angle": 40.0}
    coat = Coat(white, Pattern.PATCHES, scale=2.2, amount=0.42, grain=0.35, seed=12)
    return Scene(
        main=Instance("dog", _dog(build | walk | bearing), coat),
        viewpoint=Viewpoint(yaw=70.0, pitch=7.0),
        backdrop=_floor(),
        placement=Placement((0.5, 0.52), 0.84),
        lamp=Lamp((-0.45, -0.75, -0.6), strength=1.0, ambient=0.45),
    )
