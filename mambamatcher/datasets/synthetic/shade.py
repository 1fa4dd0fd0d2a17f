"""Colour of the surfaces that are seen: a procedural coat, one lamp, the sky and the shade of near neighbours.

Colours are linear light in [0, 1]; directions are in the camera frame.
"""

from enum import IntEnum
from math import sin, sqrt
from typing import NamedTuple

import numpy as np

from mambamatcher.datasets.synthetic.compiled import compiled
from mambamatcher.datasets.synthetic.noise import noise3
from mambamatcher.datasets.synthetic.raster import Corners, Triple, corners, mix, weights

# Rows of a palette: one for each material, then the second colour of the coat.
COAT, TRIM, DARK, LIGHT, ACCENT, PATTERN_COLOUR = range(6)
# Numba takes the values of an enumeration from plain constants.
PLAIN, PATCHES, STRIPES, SPOTS, BELLY = range(5)
# Eyes, glass and lamps shine whatever the rest of an object is like.
GLASS_GLOSS = 0.5


class Pattern(IntEnum):
    """How the second colour lies on the coat."""

    PLAIN = PLAIN
    PATCHES = PATCHES
    STRIPES = STRIPES
    SPOTS = SPOTS
    BELLY = BELLY


class Coats(NamedTuple):
    """Looks of all objects of a scene, one row an object."""

    palette: np.ndarray
    pattern: np.ndarray
    scale: np.ndarray
    amount: np.ndarray
    grain: np.ndarray
    gloss: np.ndarray
    symmetric: np.ndarray
    seed: np.ndarray


class Surfaces(NamedTuple):
    """The triangles of all objects of a scene, and what the shading needs to know about them."""

    screen: np.ndarray
    normals: np.ndarray
    canonical: np.ndarray
    triangles: np.ndarray
    owner: np.ndarray
    material: np.ndarray


class Light(NamedTuple):
    """One distant lamp of unit direction (towards it) and the light of the sky."""

    direction: Triple
    up: Triple
    strength: float
    ambient: float


@compiled
def coverage(pattern: int, scale: float, amount: float, seed: int, point: Triple) -> float:
    """Return how much of the coat's second colour shows at a canonical position, in [0, 1]."""
    x, y, z = point
    if pattern == PLAIN:
        return 0.0
    if pattern == BELLY:
        level = 0.35 * noise3(4 * x, 4 * y, 4 * z, seed) - z - 0.1
        return min(max(0.5 + 4 * (level - 0.3 + amount), 0.0), 1.0)
    if pattern == STRIPES:
        warp = noise3(5 * x, 5 * y, 5 * z, seed)
        level = 0.5 + 0.5 * sin(6 * scale * x + 7 * warp + 2 * z)
    elif pattern == SPOTS:
        level = noise3(3.5 * scale * x, 3.5 * scale * y, 3.5 * scale * z, seed)
    else:
        level = noise3(scale * x, scale * y, scale * z, seed)
    return min(max(0.5 + 12 * (level - 1 + amount), 0.0), 1.0)


@compiled
def neighbour_shade(nearest: np.ndarray, row: int, column: int, reach: int) -> float:
    """Return how much nearer surfaces around a pixel shade it, in [0, 1]."""
    height, width = nearest.shape
    here = nearest[row, column]
    least, most, scale = np.float32(1.002) * here, np.float32(1.15) * here, np.float32(50) / here
    shade = np.float32(0)
    for down, right in ((-reach, 0), (reach, 0), (0, -reach), (0, reach)):
        ahead = nearest[min(max(row + down, 0), height - 1), min(max(column + right, 0), width - 1)]
        if least < ahead < most:
            shade += min((ahead - here) * scale, np.float32(1))
    return float(shade / 4)


@compiled
def _normal(normals: np.ndarray, triangle: Corners, weight: Triple) -> Triple:
    x = mix(normals, 0, triangle, weight)
    y = mix(normals, 1, triangle, weight)
    z = mix(normals, 2, triangle, weight)
    scale = 1.0 / max(sqrt(x * x + y * y + z * z), 1e-9)
    return x * scale, y * scale, z * scale


@compiled
def _illumination(normal: Triple, light: Light) -> tuple[float, float]:
    """Return the diffuse light on a surface and the strength of its highlight."""
    (nx, ny, nz), (lx, ly, lz), up = normal, light.direction, light.up
    diffuse = max((nx * lx + ny * ly + nz * lz + 0.2) / 1.2, 0.0)
    sky = 0.5 + 0.5 * (nx * up[0] + ny * up[1] + nz * up[2])
    half = sqrt(lx * lx + ly * ly + (lz - 1) * (lz - 1))
    shine = max((nx * lx + ny * ly + nz * (lz - 1)) / half, 0.0)
    shine = shine * shine * shine
    shine = shine * shine
    shine = shine * shine
    return light.strength * diffuse + light.ambient * (0.35 + 0.65 * sky), light.strength * shine * shine


@compiled
def shade(
    surface: np.ndarray, nearest: np.ndarray, surfaces: Surfaces, coats: Coats, light: Light, picture: np.ndarray
) -> None:
    """Paint every pixel that shows a surface."""
    height, width = surface.shape
    reach = max(width // 64, 1)
    screen, triangles, canonical, normals = surfaces.screen, surfaces.triangles, surfaces.canonical, surfaces.normals
    owners, materials, palette = surfaces.owner, surfaces.material, coats.palette
    patterns, scales, amounts, seeds = coats.pattern, coats.scale, coats.amount, coats.seed
    grains, glosses, symmetric = coats.grain, coats.gloss, coats.symmetric
    for row in range(height):
        for column in range(width):
            seen = surface[row, column]
            if seen < 0:
                continue
            triangle = corners(triangles, seen)
            weight = weights(screen, triangle, column + 0.5, row + 0.5)
            x = mix(canonical, 0, triangle, weight)
            y = mix(canonical, 1, triangle, weight)
            z = mix(canonical, 2, triangle, weight)
            owner, material = owners[seen], materials[seen]
            second = 0.0
            if material == COAT:
                point = x, abs(y) if symmetric[owner] else y, z
                second = coverage(patterns[owner], scales[owner], amounts[owner], seeds[owner], point)
            lit, shine = _illumination(_normal(normals, triangle, weight), light)
            lit *= 1 - 0.55 * neighbour_shade(nearest, row, column, reach)
            if grains[owner] > 0:
                lit *= 1 + grains[owner] * (noise3(22 * x, 40 * y, 60 * z, seeds[owner] + 1) - 0.5)
            shine *= GLASS_GLOSS if material in (DARK, LIGHT) else glosses[owner]
            for channel in range(3):
                base = palette[owner, material, channel]
                base += second * (palette[owner, PATTERN_COLOUR, channel] - base)
                picture[row, column, channel] = base * lit + shine
