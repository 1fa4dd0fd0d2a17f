"""One fixed pair: two dogs of different build, coat, pose and view."""

import numpy as np

from mambamatcher.datasets.synthetic.backdrop import Backdrop
from mambamatcher.datasets.synthetic.camera import Viewpoint
from mambamatcher.datasets.synthetic.category import CATEGORIES
from mambamatcher.datasets.synthetic.coat import Coat
from mambamatcher.datasets.synthetic.pairs import SyntheticPair
from mambamatcher.datasets.synthetic.render import render
from mambamatcher.datasets.synthetic.scene import Lamp, Scene

_SIZE = (480, 480)
_SUPERSAMPLE = 3
_NOSE, _WHITE = (0.015, 0.012, 0.012), (0.8, 0.8, 0.8)


def sample_pair() -> SyntheticPair:
    """Return the pair of 480 x 480 images that is stored in `assets/sample`."""
    return SyntheticPair(render(_source(), _SIZE, _SUPERSAMPLE), render(_target(), _SIZE, _SUPERSAMPLE))


def _source() -> Scene:
    """Put a brown dog with hanging ears on a meadow."""
    build = {"leg": 0.46, "girth": 0.235, "neck": 0.36, "ear": 1.0, "ear_width": 0.42, "droop": 0.72}
    walk = {"L_front_swing": 14.0, "R_front_swing": -10.0, "L_hind_swing": -14.0, "R_hind_swing": 10.0}
    bearing = {"head_turn": -14.0, "head_tilt": -8.0, "tail_angle": 25.0}
    palette = np.array([(0.42, 0.22, 0.08), (0.70, 0.56, 0.38), _NOSE, _WHITE, (0.22, 0.10, 0.04)])
    sky = np.array([(0.42, 0.55, 0.68), (0.62, 0.68, 0.66)])
    ground = np.array([(0.24, 0.33, 0.12), (0.16, 0.27, 0.07)])
    return Scene(
        category="dog",
        parameters=CATEGORIES["dog"].typical() | build | walk | bearing,
        coat=Coat(palette, np.array((0.80, 0.74, 0.62)), "belly", amount=0.22, grain=0.45, seed=7),
        viewpoint=Viewpoint(yaw=58.0, pitch=9.0, centre=(0.5, 0.53), extent=0.84),
        backdrop=Backdrop(sky, ground, horizon=0.34, blur=0.06, mottle=0.5, texture=0.35, seed=3),
        lamp=Lamp((0.35, -0.8, -0.6), strength=1.05, ambient=0.42),
    )


def _target() -> Scene:
    """Put a white dog with dark patches and pricked ears on a floor."""
    build = {"leg": 0.52, "girth": 0.21, "neck": 0.36, "ear": 0.85, "ear_width": 0.32, "droop": 0.05}
    walk = {"L_front_swing": 20.0, "R_front_swing": -4.0, "L_hind_swing": -20.0, "R_hind_swing": 4.0}
    bearing = {"head_turn": -30.0, "head_tilt": -4.0, "tail_angle": 40.0}
    palette = np.array([(0.80, 0.77, 0.70), (0.82, 0.78, 0.70), _NOSE, _WHITE, (0.05, 0.04, 0.04)])
    sky = np.array([(0.58, 0.52, 0.44), (0.66, 0.60, 0.52)])
    ground = np.array([(0.34, 0.24, 0.16), (0.42, 0.30, 0.20)])
    return Scene(
        category="dog",
        parameters=CATEGORIES["dog"].typical() | build | walk | bearing,
        coat=Coat(palette, np.array((0.06, 0.05, 0.05)), "patches", scale=2.2, amount=0.42, grain=0.35, seed=12),
        viewpoint=Viewpoint(yaw=70.0, pitch=7.0, centre=(0.5, 0.52), extent=0.84),
        backdrop=Backdrop(sky, ground, horizon=0.40, blur=0.02, mottle=0.15, texture=0.08, seed=5),
        lamp=Lamp((-0.45, -0.75, -0.6), strength=1.0, ambient=0.45),
    )
