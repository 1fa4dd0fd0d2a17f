"""Everything that is not the object: the scenery behind it, its shadow on the ground and what stands in front.

Scenery is out of focus, so it is painted at a quarter of the resolution. Positions are fractions of the picture.
"""

from math import cos, hypot, sin
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.synthetic.compiled import compiled
from mambamatcher.datasets.synthetic.noise import noise2
from mambamatcher.datasets.synthetic.raster import HIDDEN, NOTHING

COARSENESS = 4
# Columns of a shape: centre, half sizes, angle, softness of its edge, then its colour.
SHAPE_COLUMNS = 9
_TILE = 128


class Backdrop(NamedTuple):
    """Sky over ground, each shading from one colour to another, with blurred shapes and mottling."""

    sky: np.ndarray
    ground: np.ndarray
    horizon: float
    blur: float
    mottle: float
    detail: float
    shapes: np.ndarray
    seed: int


def _grain_tile() -> Float[np.ndarray, "row column"]:
    """Make fine mottling once; pictures take it from different offsets."""
    tile = np.random.Generator(np.random.Philox(key=np.array([1, 2], np.uint64))).random((_TILE, _TILE))
    wide = np.sum([np.roll(tile, (row, column), (0, 1)) for row in (-1, 0, 1) for column in (-1, 0, 1)], axis=0)
    return ((wide - wide.mean()) / np.ptp(wide)).astype(np.float32)


GRAIN = _grain_tile()


@compiled
def inside(shape: np.ndarray, axis: tuple[float, float], x: float, y: float, box: int) -> float:
    """Return how far within an ellipse (`box` 0) or a box (1) a position lies: 1 at the centre, 0 at the edge.

    `axis` is the cosine and the sine of the shape's angle.
    """
    dx, dy = x - shape[0], y - shape[1]
    u, v = abs(axis[0] * dx + axis[1] * dy) / shape[2], abs(axis[0] * dy - axis[1] * dx) / shape[3]
    return 1 - max(u, v) if box else 1 - np.sqrt(u * u + v * v)


@compiled
def _span(centre: float, reach: float, count: int) -> tuple[int, int]:
    """Return the range of pixels that a shape can touch along one side."""
    return max(int((centre - reach) * count), 0), min(int((centre + reach) * count) + 1, count)


@compiled
def scenery(backdrop: Backdrop, shadow: np.ndarray) -> np.ndarray:
    """Paint the scenery at the coarse resolution of `shadow` and darken it by that."""
    height, width = shadow.shape
    picture = np.empty((height, width, 3), np.float32)
    horizon, sky, ground = backdrop.horizon, backdrop.sky, backdrop.ground
    for row in range(height):
        y = (row + 0.5) / height
        low_sky = min(max(y / max(horizon, 0.2), 0.0), 1.0)
        low_ground = min(max((y - horizon) / max(1 - horizon, 0.2), 0.0), 1.0)
        below = min(max(0.5 + (y - horizon) / backdrop.blur, 0.0), 1.0)
        for channel in range(3):
            above = sky[0, channel] + low_sky * (sky[1, channel] - sky[0, channel])
            under = ground[0, channel] + low_ground * (ground[1, channel] - ground[0, channel])
            picture[row, :, channel] = above + below * (under - above)
    for index in range(len(backdrop.shapes)):
        _blend(backdrop.shapes[index], index % 2, picture)
    for row in range(height):
        y = (row + 0.5) / height
        for column in range(width):
            x = (column + 0.5) / width
            mottle = noise2(5 * x, 8 * y, backdrop.seed + 1) + 0.5 * noise2(17 * x, 29 * y, backdrop.seed + 2)
            tone = (1 + backdrop.mottle * (mottle - 0.75)) * (1 - 0.6 * shadow[row, column])
            for channel in range(3):
                picture[row, column, channel] *= tone
    return picture


@compiled
def _blend(shape: np.ndarray, box: int, picture: np.ndarray) -> None:
    """Lay a soft-edged shape over the picture."""
    height, width, _ = picture.shape
    axis, reach = (cos(shape[4]), sin(shape[4])), hypot(shape[2], shape[3])
    top, bottom = _span(shape[1], reach, height)
    left, right = _span(shape[0], reach, width)
    for row in range(top, bottom):
        for column in range(left, right):
            cover = inside(shape, axis, (column + 0.5) / width, (row + 0.5) / height, box) / shape[5]
            cover = min(max(cover, 0.0), 1.0)
            for channel in range(3):
                picture[row, column, channel] += cover * (shape[6 + channel] - picture[row, column, channel])


@compiled
def enlarge(coarse: np.ndarray, backdrop: Backdrop, grain: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Enlarge the scenery to a `(width, height)` picture and give the ground fine grain."""
    width, height = size
    rows, columns, _ = coarse.shape
    picture = np.empty((height, width, 3), np.float32)
    line = np.empty((columns, 3), np.float32)
    lefts, shares = np.empty(width, np.int64), np.empty(width, np.float32)
    for column in range(width):
        x = min(max((column + 0.5) * columns / width - 0.5, 0.0), columns - 1.001)
        lefts[column], shares[column] = int(x), x - int(x)
    wrap, step = len(grain) - 1, max(width // 256, 1)
    for row in range(height):
        y = min(max((row + 0.5) * rows / height - 0.5, 0.0), rows - 1.001)
        top = int(y)
        v = np.float32(y - top)
        for column in range(columns):
            for channel in range(3):
                upper = coarse[top, column, channel]
                line[column, channel] = upper + v * (coarse[top + 1, column, channel] - upper)
        strength = np.float32(backdrop.detail if row > backdrop.horizon * height else 0.15 * backdrop.detail)
        texture = grain[(row // step + backdrop.seed) & wrap]
        for column in range(width):
            left, u = lefts[column], shares[column]
            tone = np.float32(1) + strength * texture[(column // step) & wrap]
            for channel in range(3):
                start = line[left, channel]
                picture[row, column, channel] = (start + u * (line[left + 1, channel] - start)) * tone
    return picture


@compiled
def soften(surface: np.ndarray) -> np.ndarray:
    """Turn the outline of a rasterised shadow into a soft darkness in [0, 1]."""
    height, width = surface.shape
    shadow = np.zeros((height, width), np.float32)
    for row in range(height):
        for column in range(width):
            if surface[row, column] != NOTHING:
                shadow[row, column] = 1.0
    for _ in range(2):
        sharp = shadow.copy()
        for row in range(1, height - 1):
            for column in range(1, width - 1):
                total = np.float32(0.0)
                for r in range(row - 1, row + 2):
                    total += sharp[r, column - 1] + sharp[r, column] + sharp[r, column + 1]
                shadow[row, column] = total / np.float32(9)
    return shadow


@compiled
def cover(shapes: np.ndarray, seed: int, main_triangles: int, surface: np.ndarray) -> bool:
    """Mark on `surface` what shapes in front hide, shape i by `HIDDEN - i`; say whether the main object is among it."""
    height, width = surface.shape
    hides = False
    for index in range(len(shapes)):
        shape, box = shapes[index], index % 2
        axis, reach = (cos(shape[4]), sin(shape[4])), hypot(shape[2], shape[3])
        top, bottom = _span(shape[1], reach, height)
        left, right = _span(shape[0], reach, width)
        for row in range(top, bottom):
            y = (row + 0.5) / height
            for column in range(left, right):
                x = (column + 0.5) / width
                depth = inside(shape, axis, x, y, box)
                # Bushes have ragged edges, planks have not.
                if depth <= 0 or (not box and depth <= 0.12 * noise2(14 * x, 14 * y, seed + index)):
                    continue
                hides |= 0 <= surface[row, column] < main_triangles
                surface[row, column] = HIDDEN - index
    return hides


@compiled
def paint_occluders(shapes: np.ndarray, seed: int, surface: np.ndarray, picture: np.ndarray) -> None:
    """Paint the shapes that `cover` has marked."""
    height, width = surface.shape
    for row in range(height):
        for column in range(width):
            index = HIDDEN - surface[row, column]
            if index >= 0:
                tone = 0.6 + 0.6 * noise2(40 * (column + 0.5) / width, 40 * (row + 0.5) / height, seed + 9)
                for channel in range(3):
                    picture[row, column, channel] = shapes[index, 6 + channel] * tone
