"""How scenes are drawn at random: instances, viewpoints, light, scenery and things in the way."""

from dataclasses import dataclass, replace
from math import radians, tan

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.synthetic.backdrop import SHAPE_COLUMNS, Backdrop
from mambamatcher.datasets.synthetic.camera import Placement, Viewpoint
from mambamatcher.datasets.synthetic.coats import draw_coat
from mambamatcher.datasets.synthetic.develop import Exposure
from mambamatcher.datasets.synthetic.parts import CATEGORIES
from mambamatcher.datasets.synthetic.scene import Companion, Instance, Lamp, Scene
from mambamatcher.errors import InputError

Rng = np.random.Generator
_LANDS: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = (
    # Sky top, sky bottom, far ground, near ground; linear light.
    ((0.30, 0.45, 0.70, 0.65, 0.72, 0.78), (0.22, 0.30, 0.12, 0.14, 0.24, 0.06)),
    ((0.60, 0.64, 0.68, 0.75, 0.76, 0.76), (0.34, 0.32, 0.30, 0.22, 0.21, 0.20)),
    ((0.10, 0.20, 0.07, 0.16, 0.26, 0.10), (0.25, 0.19, 0.11, 0.20, 0.14, 0.08)),
    ((0.62, 0.56, 0.47, 0.68, 0.62, 0.54), (0.32, 0.21, 0.13, 0.42, 0.29, 0.18)),
    ((0.42, 0.52, 0.62, 0.66, 0.66, 0.62), (0.62, 0.52, 0.36, 0.55, 0.45, 0.30)),
    ((0.05, 0.14, 0.24, 0.08, 0.25, 0.34), (0.07, 0.20, 0.28, 0.03, 0.10, 0.16)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Variation:
    """How often things happen that make a pair hard, as probabilities for each picture or pair.

    occlusion   something stands before the object
    company     other objects, of the same or another category, share the picture
    truncation  the object may reach over the picture's edge
    mirror      the target faces the other way than the source
    any_view    the target's viewpoint has nothing to do with the source's
    """

    occlusion: float = 0.3
    company: float = 0.3
    truncation: float = 0.2
    mirror: float = 0.3
    any_view: float = 0.2

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is a probability and must lie in [0, 1], got {getattr(self, name)}")


def draw_scene(category: str, yaw: float, variation: Variation, rng: Rng) -> Scene:
    """Draw everything but the category and the yaw."""
    low, high = CATEGORIES[category].pitch
    viewpoint = Viewpoint(yaw, _between(rng, low, high), _between(rng, -5.0, 5.0), _between(rng, 3.5, 9.0))
    extent = _between(rng, 0.55, 0.92)
    room = (1 - extent) / 2 + (0.15 if rng.random() < variation.truncation else -0.02)
    placement = Placement((0.5 + _between(rng, -room, room), 0.5 + _between(rng, -room, room)), extent)
    return Scene(
        main=draw_instance(category, rng),
        viewpoint=viewpoint,
        backdrop=_draw_backdrop(viewpoint, placement, rng),
        placement=placement,
        lamp=Lamp(
            (_between(rng, -0.8, 0.8), _between(rng, -1.0, -0.5), _between(rng, -0.9, -0.3)),
            _between(rng, 0.6, 1.1),
            _between(rng, 0.3, 0.6),
        ),
        exposure=_draw_exposure(rng),
        companions=_draw_companions(category, rng) if rng.random() < variation.company else (),
        occluders=_draw_occluders(placement, rng) if rng.random() < variation.occlusion else _draw_shapes(0, rng),
    )


def draw_instance(category: str, rng: Rng) -> Instance:
    """Draw one object."""
    model = CATEGORIES[category]
    return Instance(category, model.draw(rng), draw_coat(model.coat, rng))


def draw_yaws(variation: Variation, rng: Rng) -> tuple[float, float]:
    """Draw the yaws of a source and a target."""
    source = _between(rng, -180.0, 180.0)
    chance = rng.random()
    if chance < variation.any_view:
        return source, _between(rng, -180.0, 180.0)
    facing = -source if chance < variation.any_view + variation.mirror else source
    return source, facing + _between(rng, -35.0, 35.0)


def seen_from(scene: Scene, yaw: float) -> Scene:
    """Return the scene with the camera moved round the object."""
    return replace(scene, viewpoint=replace(scene.viewpoint, yaw=yaw))


def unobstructed(scene: Scene) -> Scene:
    """Return the scene with nothing before the object and the whole of it large in the picture."""
    placement = Placement((0.5, 0.5), max(scene.placement.extent, 0.8))
    return replace(scene, companions=(), occluders=scene.occluders[:0], placement=placement)


def _between(rng: Rng, low: float, high: float) -> float:
    return low + (high - low) * rng.random()


def _draw_exposure(rng: Rng) -> Exposure:
    gain, tint = _between(rng, 0.7, 1.3), (0.9 + 0.2 * rng.random(3)).tolist()
    gains = (gain * tint[0], gain * tint[1], gain * tint[2])
    return Exposure(gains, _between(rng, 0.8, 1.15), _between(rng, 0.0, 12.0))


def _draw_backdrop(viewpoint: Viewpoint, placement: Placement, rng: Rng) -> Backdrop:
    """Draw scenery whose horizon fits the camera's pitch; one in four is a plain wall."""
    sky, ground = _LANDS[int(rng.integers(len(_LANDS)))]
    wall = rng.random() < 0.25
    horizon = placement.centre[1] - 0.5 * placement.extent * viewpoint.distance * tan(radians(viewpoint.pitch))
    colours = np.array([sky, sky if wall else ground]).reshape(2, 2, 3)
    colours *= 0.75 + 0.5 * rng.random((2, 1, 3))
    return Backdrop(
        sky=colours[0],
        ground=colours[1],
        horizon=min(max(horizon, -0.2), 0.8),
        blur=_between(rng, 0.01, 0.25),
        mottle=_between(rng, 0.1, 0.9),
        detail=_between(rng, 0.0, 0.5),
        shapes=_draw_shapes(int(rng.integers(0, 7)), rng),
        seed=int(rng.integers(1 << 20)),
    )


def _draw_shapes(count: int, rng: Rng) -> Float[np.ndarray, "shape column"]:
    """Draw blurred ellipses and boxes anywhere in the picture."""
    shapes = rng.random((count, SHAPE_COLUMNS))
    shapes[:, 2:4] = 0.05 + 0.3 * shapes[:, 2:4] ** 2
    shapes[:, 4] *= np.pi
    shapes[:, 5] = 0.05 + 0.9 * shapes[:, 5]
    shapes[:, 6:] = 0.04 + 0.6 * shapes[:, 6:] ** 2
    return shapes


def _draw_occluders(placement: Placement, rng: Rng) -> Float[np.ndarray, "shape column"]:
    """Draw one or two shapes that reach over a part of the object: bushes, posts and planks."""
    shapes = _draw_shapes(int(rng.integers(1, 3)), rng)
    reach = 0.5 * placement.extent
    shapes[:, 0] = placement.centre[0] + reach * (2 * shapes[:, 0] - 1)
    shapes[:, 1] = placement.centre[1] + reach * (2 * shapes[:, 1] - 1)
    shapes[:, 2] = 0.05 + 0.4 * shapes[:, 2]
    shapes[1::2, 3] += 0.6
    return shapes


def _draw_companions(category: str, rng: Rng) -> tuple[Companion, ...]:
    """Draw one or two others, half of them of the same category, mostly beside or behind the main object."""
    others = []
    for index in range(int(rng.integers(1, 3))):
        other = category if rng.random() < 0.5 else list(CATEGORIES)[int(rng.integers(len(CATEGORIES)))]
        right = _between(rng, 0.9, 1.8) * (1.0 if rng.random() < 0.5 else -1.0)
        back = _between(rng, -0.4, 0.2) if index == 0 and rng.random() < 0.3 else _between(rng, 0.6, 2.2)
        yaw, scale = _between(rng, 0.0, 360.0), _between(rng, 0.6, 1.1)
        others.append(Companion(draw_instance(other, rng), yaw, right, back, scale))
    return tuple(others)
