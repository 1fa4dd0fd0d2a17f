"""What a scene consists of, and how scenes are drawn at random."""

from dataclasses import dataclass, field, replace

from mambamatcher.datasets.synthetic.backdrop import Backdrop, draw_backdrop
from mambamatcher.datasets.synthetic.camera import Viewpoint
from mambamatcher.datasets.synthetic.category import CATEGORIES, Parameters
from mambamatcher.datasets.synthetic.coat import LOOKS, Coat, Colour, Rng, draw_coat

# Probabilities: the target faces the other way than the source; its viewpoint is independent of the source's; a post
# hides a part of an object; an object may reach over the edge of the image.
_MIRRORED, _ANY_VIEW, _OCCLUDED, _TRUNCATED = 0.3, 0.2, 0.3, 0.2


@dataclass(frozen=True, slots=True)
class Lamp:
    """Direction towards the light in the camera frame, and the strength of the light and of the sky."""

    direction: tuple[float, float, float] = (-0.45, -0.75, -0.5)
    strength: float = 1.0
    ambient: float = 0.45


@dataclass(frozen=True, slots=True)
class Post:
    """An upright post in front of the object, across the whole image; `x` and `half_width` are fractions of it."""

    x: float
    half_width: float
    colour: Colour = (0.3, 0.2, 0.1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """Everything that decides what an image shows, except its size. `exposure` is a factor per colour channel."""

    category: str
    parameters: Parameters
    coat: Coat
    viewpoint: Viewpoint
    backdrop: Backdrop
    lamp: Lamp = field(default_factory=Lamp)
    exposure: Colour = (1.0, 1.0, 1.0)
    post: Post | None = None

    def in_full_view(self, yaw: float) -> "Scene":
        """Return the scene seen from `yaw`, with nothing in front of the object and all of it large in the image."""
        extent = max(self.viewpoint.extent, 0.8)
        return replace(self, post=None, viewpoint=replace(self.viewpoint, yaw=yaw, centre=(0.5, 0.5), extent=extent))


def draw_yaws(rng: Rng) -> tuple[float, float]:
    """Draw the yaws of a source and a target."""
    source, chance = rng.uniform(-180.0, 180.0), rng.random()
    if chance < _ANY_VIEW:
        return source, rng.uniform(-180.0, 180.0)
    return source, (-source if chance < _ANY_VIEW + _MIRRORED else source) + rng.uniform(-35.0, 35.0)


def draw_scene(name: str, yaw: float, rng: Rng) -> Scene:
    """Draw everything except the category and the yaw."""
    category = CATEGORIES[name]
    viewpoint = _draw_viewpoint(yaw, category.pitch, rng)
    towards = rng.uniform(-0.8, 0.8), rng.uniform(-1.0, -0.5), rng.uniform(-0.9, -0.3)
    red, green, blue = (rng.uniform(0.7, 1.3) * rng.uniform(0.9, 1.1, 3)).tolist()
    return Scene(
        category=name,
        parameters=category.draw(rng),
        coat=draw_coat(LOOKS[category.look], rng),
        viewpoint=viewpoint,
        backdrop=draw_backdrop(viewpoint, rng),
        lamp=Lamp(towards, strength=rng.uniform(0.6, 1.1), ambient=rng.uniform(0.3, 0.6)),
        exposure=(red, green, blue),
        post=_draw_post(viewpoint, rng) if rng.random() < _OCCLUDED else None,
    )


def _draw_viewpoint(yaw: float, pitch: tuple[float, float], rng: Rng) -> Viewpoint:
    extent = rng.uniform(0.55, 0.92)
    room = (1 - extent) / 2 + (0.15 if rng.random() < _TRUNCATED else -0.02)
    centre = 0.5 + rng.uniform(-room, room), 0.5 + rng.uniform(-room, room)
    return Viewpoint(yaw, rng.uniform(*pitch), rng.uniform(-5.0, 5.0), rng.uniform(3.5, 9.0), centre, extent)


def _draw_post(viewpoint: Viewpoint, rng: Rng) -> Post:
    x = viewpoint.centre[0] + 0.5 * viewpoint.extent * rng.uniform(-1.0, 1.0)
    red, green, blue = (0.04 + 0.6 * rng.random(3) ** 2).tolist()
    return Post(x, rng.uniform(0.03, 0.12), (red, green, blue))
