"""Smooth random functions of a position, the same on every machine."""

import numpy as np

from mambamatcher.datasets.synthetic.compiled import compiled

_X, _Y, _Z, _SEED = 374761393, 668265263, 2246822519, 3266489917


@compiled
def _scramble(h: int) -> float:
    """Hash the number of a lattice point to [0, 1)."""
    h &= 0xFFFFFFFF
    h = ((h ^ (h >> 15)) * 2246822519) & 0xFFFFFFFF
    return (h ^ (h >> 16)) * (1.0 / 4294967296.0)


@compiled
def _square(h: int, u: float, v: float) -> float:
    """Interpolate between the four lattice points of a square that starts at point `h`."""
    a, b, c, d = _scramble(h), _scramble(h + _X), _scramble(h + _Y), _scramble(h + _X + _Y)
    return a + u * (b - a) + v * (c - a + u * (a - b - c + d))


@compiled
def noise2(x: float, y: float, seed: int) -> float:
    """Interpolate random values on a plane lattice smoothly; values lie in [0, 1) and vary over a distance of one."""
    fx, fy = np.floor(x), np.floor(y)
    u, v = x - fx, y - fy
    return _square(int(fx) * _X + int(fy) * _Y + seed * _SEED, u * u * (3 - 2 * u), v * v * (3 - 2 * v))


@compiled
def noise3(x: float, y: float, z: float, seed: int) -> float:
    """Interpolate random values in space like `noise2` in the plane."""
    fx, fy, fz = np.floor(x), np.floor(y), np.floor(z)
    u, v, w = x - fx, y - fy, z - fz
    u, v, w = u * u * (3 - 2 * u), v * v * (3 - 2 * v), w * w * (3 - 2 * w)
    h = int(fx) * _X + int(fy) * _Y + int(fz) * _Z + seed * _SEED
    low, high = _square(h, u, v), _square(h + _Z, u, v)
    return low + w * (high - low)
