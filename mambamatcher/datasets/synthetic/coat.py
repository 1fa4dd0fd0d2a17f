"""How instances look: colours of their materials and a pattern that sticks to the surface.

Colours are linear light in [0, 1].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

Rng = np.random.Generator
Colour = tuple[float, float, float]
Pattern = Literal["plain", "patches", "stripes", "belly"]

# Large odd numbers that spread lattice coordinates and seeds over 32 bits.
_LATTICE = np.array([374761393, 668265263, 2246822519], np.uint32)
_SEED, _MIX = 3266489917, np.uint32(2246822519)


class Material(IntEnum):
    """What a part is made of: its row in the palette of a coat."""

    COAT = 0
    TRIM = 1
    DARK = 2
    LIGHT = 3
    ACCENT = 4


@dataclass(frozen=True, eq=False, slots=True)
class Coat:
    """The look of one instance.

    `palette` has a row for each material. The pattern lays the colour `second` over the material COAT, in `scale`
    features per unit and over about the share `amount`. `grain` is the roughness of fur or wood.
    """

    palette: Float[np.ndarray, "material 3"]
    second: Float[np.ndarray, " 3"]
    pattern: Pattern = "plain"
    scale: float = 3.0
    amount: float = 0.45
    grain: float = 0.3
    gloss: float = 0.03
    seed: int = 0

    def coverage(self, canonical: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, " point"]:
        """Return how much of the second colour shows at canonical positions, in [0, 1]."""
        x, y, z = canonical.T
        points = np.stack([x, np.abs(y), z], axis=1)  # coats are alike on both sides
        match self.pattern:
            case "plain":
                return np.zeros(len(points))
            case "belly":
                level = 0.35 * noise(4 * points, self.seed) - z - 0.1
                return np.clip(0.5 + 4 * (level - 0.3 + self.amount), 0.0, 1.0)
            case "stripes":
                warp = noise(5 * points, self.seed)
                level = 0.5 + 0.5 * np.sin(6 * self.scale * x + 7 * warp + 2 * z)
            case "patches":
                level = noise(self.scale * points, self.seed)
        return np.clip(0.5 + 12 * (level - 1 + self.amount), 0.0, 1.0)

    def roughness(self, canonical: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, " point"]:
        """Return the factor by which the grain brightens or darkens the coat at canonical positions."""
        return 1 + self.grain * (noise(canonical * [22.0, 40.0, 60.0], self.seed + 1) - 0.5)


def noise(points: Float[np.ndarray, "*rows 3"], seed: int) -> Float[np.ndarray, "*rows"]:
    """Interpolate random values on a lattice smoothly; they lie in [0, 1) and vary over a distance of one.

    The values are hashes of the lattice coordinates, the same on every machine.
    """
    cells = [np.floor(points[..., axis]) for axis in range(3)]
    shares = [points[..., axis] - cell for axis, cell in enumerate(cells)]
    shares = [share * share * (3 - 2 * share) for share in shares]
    numbers = [cell.astype(np.int64).astype(np.uint32) * prime for cell, prime in zip(cells, _LATTICE, strict=True)]
    first = numbers[0] + numbers[1] + numbers[2] + np.uint32(seed * _SEED % 2**32)
    total = np.zeros(first.shape)
    for corner in np.ndindex(2, 2, 2):
        number = first + np.uint32(np.dot(corner, _LATTICE.astype(int)) % 2**32)
        number = (number ^ (number >> 15)) * _MIX
        x, y, z = (share if upper else 1 - share for share, upper in zip(shares, corner, strict=True))
        total += x * y * z * (number ^ (number >> 16))
    return total / 2**32


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What coats of a kind are drawn from; `patterned` and `any_hue` are probabilities."""

    colours: Sequence[Colour]
    patterned: float
    any_hue: float
    grain: tuple[float, float]
    gloss: float


_FUR = ((0.45, 0.25, 0.10), (0.30, 0.14, 0.06), (0.62, 0.44, 0.24), (0.78, 0.68, 0.52), (0.80, 0.78, 0.74),
        (0.16, 0.09, 0.05), (0.06, 0.05, 0.05), (0.26, 0.25, 0.25), (0.50, 0.48, 0.45), (0.55, 0.26, 0.08))  # fmt: skip
_WOOD = ((0.42, 0.22, 0.09), (0.25, 0.11, 0.05), (0.60, 0.42, 0.22), (0.10, 0.06, 0.04))
LOOKS = {
    "fur": Look(colours=_FUR, patterned=0.75, any_hue=0.0, grain=(0.25, 0.65), gloss=0.03),
    "paint": Look(colours=_FUR, patterned=0.15, any_hue=1.0, grain=(0.0, 0.0), gloss=0.35),
    "wood": Look(colours=_WOOD, patterned=0.1, any_hue=0.4, grain=(0.0, 0.25), gloss=0.35),
}


def draw_coat(look: Look, rng: Rng) -> Coat:
    """Draw the look of one instance."""
    main, second = _draw_colour(look, rng), _draw_colour(look, rng)
    trim = main + (second - main) * rng.random() if rng.random() < 0.6 else second
    accent = main * rng.uniform(0.35, 0.9) if rng.random() < 0.7 else second
    dark, light = np.full(3, rng.uniform(0.01, 0.05)), np.full(3, rng.uniform(0.45, 0.85))
    return Coat(
        palette=np.stack([main, trim, dark, light, accent]),
        second=second,
        pattern=get_args(Pattern)[int(rng.integers(1, 4))] if rng.random() < look.patterned else "plain",
        scale=rng.uniform(2.0, 6.0),
        amount=rng.uniform(0.35, 0.6),
        grain=rng.uniform(*look.grain),
        gloss=rng.uniform(0.0, look.gloss),
        seed=int(rng.integers(1 << 20)),
    )


def _draw_colour(look: Look, rng: Rng) -> Float[np.ndarray, " 3"]:
    """Draw a colour of any hue, or vary a listed one a little."""
    if rng.random() < look.any_hue:
        hue = rng.random(3) ** 2
        return rng.uniform(0.05, 0.8) * (0.15 + 0.85 * hue / max(float(hue.max()), 1e-3))
    listed = np.array(look.colours[int(rng.integers(len(look.colours)))])
    return np.clip(listed * rng.uniform(0.8, 1.2, 3), 0.0, 1.0)
