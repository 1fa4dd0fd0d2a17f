"""What an object is made of: lofted parts in a common frame, and keypoints that sit on them.

Object frame: x forward, y to the object's own left, z up, ground at z = 0; right-handed. Lengths are arbitrary, since
the camera fits the object to the picture.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from math import cos, sin

import numpy as np
from jaxtyping import Float, Int

from mambamatcher.datasets.synthetic import shade
from mambamatcher.datasets.synthetic.loft import CAP_RINGS, SEGMENTS, loft, ring_count, ring_of, triangulate
from mambamatcher.datasets.synthetic.raster import Mesh
from mambamatcher.registry import Registry

Vector = tuple[float, float, float]
Section = tuple[float, float, float, float, float]
Parameters = Mapping[str, float]

FORWARD: Vector = (1.0, 0.0, 0.0)
LEFT: Vector = (0.0, 1.0, 0.0)
UP: Vector = (0.0, 0.0, 1.0)


class Material(IntEnum):
    """Rows of an instance's palette."""

    COAT = shade.COAT
    TRIM = shade.TRIM
    DARK = shade.DARK
    LIGHT = shade.LIGHT
    ACCENT = shade.ACCENT


@dataclass(frozen=True, slots=True)
class Part:
    """A closed surface lofted through sections `(x, y, z, across, along)`.

    A section is a superellipse square to the centre line, with the half size `along` in the direction of `hint` and
    `across` in the direction square to both. `ends` says how far the caps bulge: 0 is flat, 1 a hemisphere.
    """

    name: str
    sections: Sequence[Section]
    hint: Vector = UP
    material: Material = Material.COAT
    squareness: float = 0.0
    ends: tuple[float, float] = (1.0, 1.0)
    straight: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A joint: where a group of parts sits and how it is turned."""

    origin: Vector = (0.0, 0.0, 0.0)
    axes: tuple[Vector, Vector, Vector] = (FORWARD, LEFT, UP)

    def point(self, x: float, y: float, z: float) -> Vector:
        """Return the object-frame position of a local point."""
        dx, dy, dz = self.direction(x, y, z)
        return self.origin[0] + dx, self.origin[1] + dy, self.origin[2] + dz

    def direction(self, x: float, y: float, z: float) -> Vector:
        """Return the object-frame direction of a local one."""
        a, b, c = self.axes
        return (
            a[0] * x + b[0] * y + c[0] * z,
            a[1] * x + b[1] * y + c[1] * z,
            a[2] * x + b[2] * y + c[2] * z,
        )

    def turned(self, yaw: float = 0.0, pitch: float = 0.0) -> "Frame":
        """Return the joint turned to the left by `yaw` and upwards by `pitch`, in radians."""
        cy, sy, cp, sp = cos(yaw), sin(yaw), cos(pitch), sin(pitch)
        forward, left, up = (cy * cp, sy * cp, sp), (-sy, cy, 0.0), (-cy * sp, -sy * sp, cp)
        return Frame(self.origin, (self.direction(*forward), self.direction(*left), self.direction(*up)))

    def sections(self, sections: Iterable[Section]) -> list[Section]:
        """Move local sections to the object frame."""
        return [(*self.point(x, y, z), across, along) for x, y, z, across, along in sections]


@dataclass(frozen=True, slots=True)
class Keypoint:
    """A named surface point: `at` runs from one end of a part (0) to the other (1), `direction` picks the side."""

    name: str
    part: str
    at: float
    direction: Vector = UP


@dataclass(frozen=True, eq=False)
class Topology:
    """What all instances of a category share: how vertices form triangles, and which vertices are keypoints.

    `around` lists the triangles of which one must face the viewer if a keypoint is to be seen; some stand more than
    once, to fill the row.
    """

    triangles: Int[np.ndarray, "triangle 3"]
    part: Int[np.ndarray, " triangle"]
    material: Int[np.ndarray, " triangle"]
    keypoints: Int[np.ndarray, " keypoint"]
    around: Int[np.ndarray, "keypoint neighbour"]
    canonical: Float[np.ndarray, "vertex 3"]

    def on(self, screen: Float[np.ndarray, "vertex 3"]) -> Mesh:
        """Return the mesh of an instance whose vertices are projected to `screen`."""
        return Mesh(screen, self.triangles, self.part)


@dataclass(frozen=True, eq=False)
class Category:
    """A parametric articulated model: every parameter is drawn from its range for every instance."""

    build: Callable[[Parameters], list[Part]]
    ranges: Mapping[str, tuple[float, float]]
    keypoints: Sequence[Keypoint]
    coat: str = "fur"
    grounded: bool = True
    pitch: tuple[float, float] = (-5.0, 25.0)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of all keypoints; those with two sides start with `L_` or `R_`."""
        return tuple(keypoint.name for keypoint in self.keypoints)

    def draw(self, rng: np.random.Generator) -> dict[str, float]:
        """Draw the shape and pose of one instance."""
        numbers = rng.random(len(self.ranges)).tolist()
        return {
            name: low + (high - low) * number
            for (name, (low, high)), number in zip(self.ranges.items(), numbers, strict=True)
        }

    def middle(self) -> dict[str, float]:
        """Return the middle of every range: the typical instance."""
        return {name: (low + high) / 2 for name, (low, high) in self.ranges.items()}

    def vertices(self, parameters: Parameters) -> Float[np.ndarray, "vertex 3"]:
        """Return the surface of one instance in the object frame."""
        return surface(self.build(parameters))


CATEGORIES: Registry[Category] = Registry("synthetic category")


def surface(parts: Sequence[Part]) -> Float[np.ndarray, "vertex 3"]:
    """Loft all parts into one vertex array."""
    sections = np.array([section for part in parts for section in part.sections])
    counts = np.array([len(part.sections) for part in parts])
    traits = np.array([(*part.hint, part.squareness, *part.ends, float(part.straight)) for part in parts])
    return loft(sections, counts, traits)


@cache
def topology(category: Category) -> Topology:
    """Work out once what all instances of a category share."""
    parts = category.build(category.middle())
    vertices = surface(parts)
    rings = [ring_count(len(part.sections)) for part in parts]
    triangles, part_of = triangulate(np.array(rings))
    keypoints = np.array([_vertex(keypoint, parts, vertices) for keypoint in category.keypoints])
    mesh = Mesh(vertices, triangles, part_of)
    centred = vertices - (vertices.min(0) + vertices.max(0)) / 2
    return Topology(
        triangles=triangles,
        part=part_of,
        material=np.array([int(part.material) for part in parts], np.int32)[part_of],
        keypoints=keypoints,
        around=np.stack([_around(vertices, mesh, int(vertex)) for vertex in keypoints]),
        canonical=centred / np.abs(centred).max(),
    )


def _vertex(keypoint: Keypoint, parts: Sequence[Part], vertices: Float[np.ndarray, "vertex 3"]) -> int:
    """Find the vertex of a keypoint's ring that lies farthest in its direction."""
    index = [part.name for part in parts].index(keypoint.part)
    ring = ring_of([len(part.sections) for part in parts], index, keypoint.at)
    offsets = vertices[ring] @ np.array(keypoint.direction)
    return int(ring.start + offsets.argmax())


def _around(vertices: Float[np.ndarray, "vertex 3"], mesh: Mesh, vertex: int) -> Int[np.ndarray, " neighbour"]:
    """Find the triangles that meet in a vertex; a tip counts as its whole cap, which shows from most sides."""
    ring = np.arange(SEGMENTS) + vertex // SEGMENTS * SEGMENTS
    met = (mesh.triangles == vertex).any(axis=1)
    if np.ptp(vertices[ring], axis=0).max() < 1e-9:
        near = np.abs(mesh.triangles // SEGMENTS - vertex // SEGMENTS).max(axis=1) <= CAP_RINGS
        met = near & (mesh.part == mesh.part[met][0])
    return np.resize(np.flatnonzero(met), 2 * SEGMENTS * CAP_RINGS)
