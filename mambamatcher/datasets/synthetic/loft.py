"""Surfaces lofted through a few cross-sections: the only primitive of the renderer.

A part with k sections always gives the same grid of rings and segments, so a vertex index is a surface coordinate that
all instances of a category share.
"""

from collections.abc import Sequence
from math import pi

import numpy as np
from jaxtyping import Float, Int

from mambamatcher.datasets.synthetic.body import Part

SEGMENTS = 16
_CAP_RINGS = 3
_RINGS_PER_SPAN = 3
_THINNEST = 1e-4


def ring_count(part: Part) -> int:
    """Return the number of vertex rings of a part, caps included."""
    return (len(part.sections) - 1) * _RINGS_PER_SPAN + 1 + 2 * _CAP_RINGS


def triangulate(rings: Sequence[int]) -> tuple[Int[np.ndarray, "triangle 3"], Int[np.ndarray, " triangle"]]:
    """Join neighbouring rings of each part by triangles that face outwards; also return each triangle's part."""
    ends = np.cumsum(rings)
    lower = np.setdiff1d(np.arange(ends[-1]), ends - 1)[:, None] * SEGMENTS
    here, beside = np.arange(SEGMENTS), (np.arange(SEGMENTS) + 1) % SEGMENTS
    a, b, c, d = lower + here, lower + beside, lower + SEGMENTS + beside, lower + SEGMENTS + here
    triangles = np.stack([np.stack([a, b, d], -1), np.stack([b, c, d], -1)], -2).reshape(-1, 3)
    part = np.repeat(np.arange(len(rings)), [(count - 1) * SEGMENTS * 2 for count in rings])
    return triangles.astype(np.int32), part.astype(np.int32)


def loft(part: Part) -> Float[np.ndarray, "vertex 3"]:
    """Return the vertices of a part, ring by ring."""
    spine = _spline(np.array(part.sections))
    tangents = _normalised(np.gradient(spine[:, :3], axis=0))
    start = _cap(spine[0], -tangents[0], part.ends[0])[::-1]
    end = _cap(spine[-1], tangents[-1], part.ends[1])
    rings = np.concatenate([start, spine, end])
    tangents = np.concatenate([tangents[:1]] * _CAP_RINGS + [tangents] + [tangents[-1:]] * _CAP_RINGS)
    hint = np.array(part.hint)
    along = _normalised(hint - tangents * (tangents * hint).sum(axis=1, keepdims=True))
    across = np.cross(tangents, along)
    angle = 2 * pi * np.arange(SEGMENTS) / SEGMENTS
    circle = np.stack([np.cos(angle), np.sin(angle)])
    c, s = np.sign(circle) * np.abs(circle) ** (1 - 0.85 * part.squareness)
    vertices = rings[:, None, :3] + (along * rings[:, 4:])[:, None] * c[:, None]
    return (vertices + (across * rings[:, 3:4])[:, None] * s[:, None]).reshape(-1, 3)


def _normalised(vectors: Float[np.ndarray, "row 3"]) -> Float[np.ndarray, "row 3"]:
    return vectors / np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))


def _spline(sections: Float[np.ndarray, "section 5"]) -> Float[np.ndarray, "ring 5"]:
    """Interpolate the sections by a Catmull-Rom spline."""
    before, after = 2 * sections[:1] - sections[1:2], 2 * sections[-1:] - sections[-2:-1]
    padded = np.concatenate([before, sections, after])
    slopes = (padded[2:] - padded[:-2]) / 2
    start, end, leaving, arriving = (each[:, None] for each in (sections[:-1], sections[1:], slopes[:-1], slopes[1:]))
    t = np.arange(_RINGS_PER_SPAN)[:, None] / _RINGS_PER_SPAN
    quadratic = 3 * (end - start) - 2 * leaving - arriving
    cubic = 2 * (start - end) + leaving + arriving
    rings = (start + t * (leaving + t * (quadratic + t * cubic))).reshape(-1, 5)
    spine = np.concatenate([rings, sections[-1:]])
    spine[:, 3:] = np.maximum(spine[:, 3:], _THINNEST)
    return spine


def _cap(edge: Float[np.ndarray, " 5"], outward: Float[np.ndarray, " 3"], bulge: float) -> Float[np.ndarray, "ring 5"]:
    """Close an end by rings that shrink to a point."""
    angle = pi / 2 * np.arange(1, _CAP_RINGS + 1)[:, None] / _CAP_RINGS
    centres = edge[:3] + outward * (bulge * edge[3:].min() * np.sin(angle))
    halves = edge[3:] * np.cos(angle)
    halves[-1] = 0.0
    return np.concatenate([centres, halves], axis=1)
