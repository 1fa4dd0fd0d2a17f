"""What is behind the object: blurred scenery, and the object's shadow on the ground.

Scenery is out of focus, so it is painted at a quarter of the resolution. Positions are fractions of the image.
"""

from dataclasses import dataclass
from functools import cache
from math import radians, tan

import numpy as np
from jaxtyping import Float
from PIL import Image

from mambamatcher.datasets.synthetic.camera import Viewpoint
from mambamatcher.datasets.synthetic.coat import Rng, noise

COARSENESS = 4
_TILE = 128
# Sky top and bottom, then far and near ground; linear light.
_LANDS = np.array([
    [(0.30, 0.45, 0.70), (0.65, 0.72, 0.78), (0.22, 0.30, 0.12), (0.14, 0.24, 0.06)],
    [(0.60, 0.64, 0.68), (0.75, 0.76, 0.76), (0.34, 0.32, 0.30), (0.22, 0.21, 0.20)],
    [(0.10, 0.20, 0.07), (0.16, 0.26, 0.10), (0.25, 0.19, 0.11), (0.20, 0.14, 0.08)],
    [(0.62, 0.56, 0.47), (0.68, 0.62, 0.54), (0.32, 0.21, 0.13), (0.42, 0.29, 0.18)],
    [(0.42, 0.52, 0.62), (0.66, 0.66, 0.62), (0.62, 0.52, 0.36), (0.55, 0.45, 0.30)],
])  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Blob:
    """A blurred ellipse in the scenery; its edge is `softness` wide, relative to its radii."""

    centre: Float[np.ndarray, " 2"]
    radii: Float[np.ndarray, " 2"]
    softness: float
    colour: Float[np.ndarray, " 3"]


@dataclass(frozen=True, eq=False, slots=True)
class Backdrop:
    """Sky over ground, each with a gradient between two colours, mottled, with blobs and fine texture."""

    sky: Float[np.ndarray, "2 3"]
    ground: Float[np.ndarray, "2 3"]
    horizon: float
    blur: float
    mottle: float
    texture: float
    seed: int
    blobs: tuple[Blob, ...] = ()


def draw_backdrop(viewpoint: Viewpoint, rng: Rng) -> Backdrop:
    """Draw scenery whose horizon fits the camera's pitch."""
    land = _LANDS[int(rng.integers(len(_LANDS)))].reshape(2, 2, 3) * rng.uniform(0.75, 1.25, (2, 1, 3))
    horizon = viewpoint.centre[1] - 0.5 * viewpoint.extent * viewpoint.distance * tan(radians(viewpoint.pitch))
    return Backdrop(
        sky=land[0],
        ground=land[1],
        horizon=min(max(horizon, -0.2), 0.8),
        blur=rng.uniform(0.01, 0.25),
        mottle=rng.uniform(0.1, 0.9),
        texture=rng.uniform(0.0, 0.5),
        seed=int(rng.integers(1 << 20)),
        blobs=tuple(
            Blob(rng.random(2), 0.05 + 0.3 * rng.random(2) ** 2, rng.uniform(0.05, 0.95), 0.6 * rng.random(3) ** 2)
            for _ in range(int(rng.integers(0, 7)))
        ),
    )


def paint_backdrop(
    backdrop: Backdrop, shadow: Float[np.ndarray, "coarse_rows coarse_columns"], size: tuple[int, int]
) -> Float[np.ndarray, "rows columns 3"]:
    """Paint scenery as a `(width, height)` image in linear light, darkened where `shadow` is above 0."""
    coarse = (_scenery(backdrop, *shadow.shape) * (1 - 0.6 * shadow)[:, :, None]).astype(np.float32)
    channels = [Image.fromarray(coarse[:, :, channel]).resize(size, Image.Resampling.BILINEAR) for channel in range(3)]
    image = np.stack([np.asarray(channel) for channel in channels], axis=-1)
    rows, columns, step = np.arange(size[1]), np.arange(size[0]), max(size[0] // 256, 1)
    tile = _texture_tile()[(rows // step + backdrop.seed) % _TILE][:, columns // step % _TILE]
    strength = np.where(rows > backdrop.horizon * size[1], backdrop.texture, 0.15 * backdrop.texture)
    return image * (1 + strength[:, None] * tile).astype(np.float32)[:, :, None]


def _scenery(backdrop: Backdrop, height: int, width: int) -> Float[np.ndarray, "rows columns 3"]:
    y = ((np.arange(height) + 0.5) / height)[:, None]
    horizon = backdrop.horizon
    sky = _blend(backdrop.sky[0], backdrop.sky[1], y / max(horizon, 0.2))
    ground = _blend(backdrop.ground[0], backdrop.ground[1], (y - horizon) / max(1 - horizon, 0.2))
    image = np.repeat(_blend(sky, ground, 0.5 + (y - horizon) / backdrop.blur)[:, None], width, axis=1)
    places = np.stack(np.meshgrid((np.arange(width) + 0.5) / width, y[:, 0]), axis=-1)
    for blob in backdrop.blobs:
        depth = 1 - np.linalg.norm((places - blob.centre) / blob.radii, axis=-1, keepdims=True)
        image = _blend(image, blob.colour, depth / blob.softness)
    flat = np.concatenate([places, np.zeros((height, width, 1))], axis=-1)
    mottle = noise(flat * [5, 8, 0], backdrop.seed + 1) + 0.5 * noise(flat * [17, 29, 0], backdrop.seed + 2)
    return image * (1 + backdrop.mottle * (mottle - 0.75))[:, :, None]


def _blend(start: np.ndarray, end: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Mix two colours; a share below 0 is all `start`, one above 1 all `end`."""
    return start + np.clip(share, 0.0, 1.0) * (end - start)


@cache
def _texture_tile() -> Float[np.ndarray, "row column"]:
    """Make fine texture once; images take it from different offsets."""
    tile = np.random.Generator(np.random.Philox(key=np.array([1, 2], np.uint64))).random((_TILE, _TILE))
    wide = np.sum([np.roll(tile, (row, column), (0, 1)) for row in (-1, 0, 1) for column in (-1, 0, 1)], axis=0)
    return (wide - wide.mean()) / np.ptp(wide)
