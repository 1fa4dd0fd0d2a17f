"""Surfaces lofted through a few sections: the only primitive of the renderer.

A part with k sections always gives the same grid of rings and segments, so a vertex index is a surface coordinate that
all instances of a category share.
"""

from collections.abc import Sequence
from math import cos, pi, sin, sqrt

import numpy as np
from jaxtyping import Float, Int

from mambamatcher.datasets.synthetic.compiled import compiled

SEGMENTS = 16
RINGS_PER_SPAN = 3
CAP_RINGS = 3
# Columns of a part's traits, after the three of its hint.
SQUARENESS, START_END, STRAIGHT = 3, 4, 6
_THINNEST = 1e-4


def ring_count(sections: int) -> int:
    """Return how many rings a part has, caps included."""
    return (sections - 1) * RINGS_PER_SPAN + 1 + 2 * CAP_RINGS


def ring_of(sections: Sequence[int], part: int, at: float) -> slice:
    """Return the vertices of the ring at fraction `at` of a part's length."""
    before = sum(ring_count(count) for count in sections[:part])
    ring = before + round(at * (ring_count(sections[part]) - 1))
    return slice(ring * SEGMENTS, (ring + 1) * SEGMENTS)


def triangulate(
    rings: Int[np.ndarray, " part"],
) -> tuple[Int[np.ndarray, "triangle 3"], Int[np.ndarray, " triangle"]]:
    """Join neighbouring rings of each part by triangles that turn outwards; also say each triangle's part."""
    ends = np.cumsum(rings)
    lower = np.setdiff1d(np.arange(ends[-1]), ends - 1)[:, None] * SEGMENTS
    here, beside = np.arange(SEGMENTS), (np.arange(SEGMENTS) + 1) % SEGMENTS
    a, b, c, d = lower + here, lower + beside, lower + SEGMENTS + beside, lower + SEGMENTS + here
    triangles = np.stack([np.stack([a, b, d], -1), np.stack([b, c, d], -1)], -2)
    part = np.repeat(np.arange(len(rings)), (rings - 1) * SEGMENTS * 2)
    return triangles.reshape(-1, 3).astype(np.int32), part.astype(np.int32)


def loft(
    sections: Float[np.ndarray, "section 5"],
    counts: Int[np.ndarray, " part"],
    traits: Float[np.ndarray, "part 7"],
) -> Float[np.ndarray, "vertex 3"]:
    """Return the vertices of all parts, ring by ring."""
    total = sum(ring_count(int(count)) for count in counts)
    vertices = np.empty((total * SEGMENTS, 3))
    _loft(sections, counts, traits, vertices)
    return vertices


@compiled
def _loft(sections: np.ndarray, counts: np.ndarray, traits: np.ndarray, vertices: np.ndarray) -> None:
    section = vertex = 0
    circle = np.empty((SEGMENTS, 2))
    for part in range(len(counts)):
        count = counts[part]
        rings = (count - 1) * RINGS_PER_SPAN + 1 + 2 * CAP_RINGS
        line, tangents = np.empty((rings, 5)), np.empty((rings, 3))
        spine = line[CAP_RINGS : rings - CAP_RINGS]
        _spine(sections[section : section + count], traits[part, STRAIGHT] > 0, spine)
        _tangents(spine, tangents)
        _cap(line, tangents, traits[part])
        _unit_ring(traits[part, SQUARENESS], circle)
        for ring in range(rings):
            _ring(line[ring], tangents[ring], traits[part], circle, vertices[vertex : vertex + SEGMENTS])
            vertex += SEGMENTS
        section += count


@compiled
def _spine(controls: np.ndarray, straight: bool, spine: np.ndarray) -> None:
    """Interpolate the sections by a Catmull-Rom spline, or by straight lines."""
    last = len(controls) - 1
    for ring in range(len(spine)):
        span = min(ring // RINGS_PER_SPAN, last - 1)
        t = ring / RINGS_PER_SPAN - span
        for axis in range(5):
            start, end = controls[span, axis], controls[span + 1, axis]
            if straight:
                spine[ring, axis] = start + t * (end - start)
                continue
            before = controls[span - 1, axis] if span > 0 else 2 * start - end
            after = controls[span + 2, axis] if span + 2 <= last else 2 * end - start
            slope_start, slope_end = (end - before) / 2, (after - start) / 2
            bend = 3 * (end - start) - 2 * slope_start - slope_end
            twist = 2 * (start - end) + slope_start + slope_end
            spine[ring, axis] = start + t * (slope_start + t * (bend + t * twist))
        spine[ring, 3] = max(spine[ring, 3], _THINNEST)
        spine[ring, 4] = max(spine[ring, 4], _THINNEST)


@compiled
def _tangents(spine: np.ndarray, tangents: np.ndarray) -> None:
    """Point along the centre line; caps take the direction of the end they close."""
    last = len(spine) - 1
    for ring in range(len(tangents)):
        here = min(max(ring - CAP_RINGS, 0), last)
        ahead, behind = spine[min(here + 1, last)], spine[max(here - 1, 0)]
        x, y, z = ahead[0] - behind[0], ahead[1] - behind[1], ahead[2] - behind[2]
        length = sqrt(x * x + y * y + z * z)
        tangents[ring, 0], tangents[ring, 1], tangents[ring, 2] = x / length, y / length, z / length


@compiled
def _cap(line: np.ndarray, tangents: np.ndarray, traits: np.ndarray) -> None:
    """Close both ends by rings that shrink to a point."""
    for end in range(2):
        edge = CAP_RINGS if end == 0 else len(line) - 1 - CAP_RINGS
        outward = -1 if end == 0 else 1
        bulge = traits[START_END + end] * min(line[edge, 3], line[edge, 4])
        for step in range(1, CAP_RINGS + 1):
            angle = pi / 2 * step / CAP_RINGS
            reach, share = outward * bulge * sin(angle), max(cos(angle), 0.0) if step < CAP_RINGS else 0.0
            ring = edge + outward * step
            for axis in range(3):
                line[ring, axis] = line[edge, axis] + tangents[edge, axis] * reach
            line[ring, 3], line[ring, 4] = line[edge, 3] * share, line[edge, 4] * share


@compiled
def _unit_ring(squareness: float, circle: np.ndarray) -> None:
    """Walk round a superellipse with unit half sizes."""
    exponent = 1 - 0.85 * squareness
    for segment in range(SEGMENTS):
        c, s = cos(2 * pi * segment / SEGMENTS), sin(2 * pi * segment / SEGMENTS)
        circle[segment, 0] = abs(c) ** exponent * np.sign(c)
        circle[segment, 1] = abs(s) ** exponent * np.sign(s)


@compiled
def _ring(
    section: np.ndarray, tangent: np.ndarray, traits: np.ndarray, circle: np.ndarray, vertices: np.ndarray
) -> None:
    tx, ty, tz = tangent[0], tangent[1], tangent[2]
    hx, hy, hz = traits[0], traits[1], traits[2]
    lean = hx * tx + hy * ty + hz * tz
    ax, ay, az = hx - tx * lean, hy - ty * lean, hz - tz * lean
    scale = section[4] / sqrt(ax * ax + ay * ay + az * az)
    ax, ay, az = ax * scale, ay * scale, az * scale
    ratio = section[3] / section[4] if section[4] > 0 else 0.0
    bx, by, bz = (ty * az - tz * ay) * ratio, (tz * ax - tx * az) * ratio, (tx * ay - ty * ax) * ratio
    for segment in range(SEGMENTS):
        c, s = circle[segment, 0], circle[segment, 1]
        vertices[segment, 0] = section[0] + ax * c + bx * s
        vertices[segment, 1] = section[1] + ay * c + by * s
        vertices[segment, 2] = section[2] + az * c + bz * s
