"""What instances are coloured like: palettes and patterns, drawn for each instance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.synthetic.shade import Coats, Pattern

Colour = tuple[float, float, float]

# Linear light. Fur and feathers are mostly browns, greys and creams; paint may have any hue.
_FUR: tuple[Colour, ...] = (
    (0.45, 0.25, 0.10), (0.30, 0.14, 0.06), (0.62, 0.44, 0.24), (0.78, 0.68, 0.52), (0.80, 0.78, 0.74),
    (0.16, 0.09, 0.05), (0.06, 0.05, 0.05), (0.26, 0.25, 0.25), (0.50, 0.48, 0.45), (0.55, 0.26, 0.08),
)  # fmt: skip
_SKIN: tuple[Colour, ...] = ((0.72, 0.45, 0.32), (0.58, 0.33, 0.20), (0.30, 0.15, 0.08), (0.12, 0.06, 0.04))
_BEAK: tuple[Colour, ...] = ((0.75, 0.40, 0.05), (0.25, 0.22, 0.20), (0.60, 0.50, 0.35), (0.70, 0.12, 0.06))
_WOOD: tuple[Colour, ...] = ((0.42, 0.22, 0.09), (0.25, 0.11, 0.05), (0.60, 0.42, 0.22), (0.10, 0.06, 0.04))


_LAMP: tuple[Colour, ...] = ((0.75, 0.75, 0.72), (0.55, 0.55, 0.55))
_PATTERNED = {"fur": 0.75, "plumage": 0.6, "paint": 0.15, "cloth": 0.4, "wood": 0.1}
_GRAIN = {"cloth": 0.15, "wood": 0.25}
_ANY_HUE = {"fur": 0.0, "plumage": 0.5, "paint": 1.0, "cloth": 0.8, "wood": 0.4}


@dataclass(frozen=True, eq=False, slots=True)
class Coat:
    """The look of one instance; `palette` has a row for each material and one for the pattern."""

    palette: Float[np.ndarray, "row 3"]
    pattern: Pattern = Pattern.PLAIN
    scale: float = 3.0
    amount: float = 0.45
    grain: float = 0.3
    gloss: float = 0.03
    symmetric: bool = True
    seed: int = 0


def stack(coats: Sequence[Coat]) -> Coats:
    """Put the coats of a scene side by side, as the shading wants them."""
    return Coats(
        palette=np.stack([coat.palette for coat in coats]),
        pattern=np.array([int(coat.pattern) for coat in coats]),
        scale=np.array([coat.scale for coat in coats]),
        amount=np.array([coat.amount for coat in coats]),
        grain=np.array([coat.grain for coat in coats]),
        gloss=np.array([coat.gloss for coat in coats]),
        symmetric=np.array([coat.symmetric for coat in coats]),
        seed=np.array([coat.seed for coat in coats]),
    )


def draw_coat(kind: str, rng: np.random.Generator) -> Coat:
    """Draw a look: `fur`, `plumage`, `paint`, `cloth` or `wood`."""
    patterned = rng.random() < _PATTERNED[kind]
    pattern = Pattern(int(rng.integers(1, len(Pattern)))) if patterned else Pattern.PLAIN
    main, second = _colour(kind, rng), _colour(kind, rng)
    dark = np.full(3, 0.01 + 0.04 * rng.random())
    light = _pick({"cloth": _SKIN, "plumage": _BEAK}.get(kind, _LAMP), rng)
    trim = main + (second - main) * rng.random() if rng.random() < 0.6 else second
    accent = main * (0.35 + 0.55 * rng.random()) if rng.random() < 0.7 else second
    if kind == "cloth":
        # Clothes are of independent colours, and the accent is hair.
        trim, accent = _colour(kind, rng), _pick(_FUR, rng)
    soft = kind in ("fur", "plumage")
    return Coat(
        palette=np.stack([main, trim, dark, light, accent, second]),
        pattern=pattern,
        scale=2.0 + 2.5 * rng.random(),
        amount=0.35 + 0.25 * rng.random(),
        grain=(0.25 + 0.4 * rng.random()) if soft else _GRAIN.get(kind, 0.0) * rng.random(),
        gloss=0.03 * rng.random() if soft else 0.35 * rng.random(),
        symmetric=bool(rng.random() < 0.5),
        seed=int(rng.integers(1 << 20)),
    )


def _colour(kind: str, rng: np.random.Generator) -> Float[np.ndarray, "3"]:
    """Draw a colour of a kind, listed or of any hue."""
    if rng.random() >= _ANY_HUE[kind]:
        return _pick(_WOOD if kind == "wood" else _FUR, rng)
    bright, hue = 0.05 + 0.75 * rng.random(), rng.random(3) ** 2
    return bright * (0.15 + 0.85 * hue / max(float(hue.max()), 1e-3))


def _pick(listed: Sequence[Colour], rng: np.random.Generator) -> Float[np.ndarray, "3"]:
    """Draw a listed colour and vary it a little."""
    base = np.array(listed[int(rng.integers(len(listed)))])
    return np.clip(base * (0.8 + 0.4 * rng.random(3)), 0.0, 1.0)
