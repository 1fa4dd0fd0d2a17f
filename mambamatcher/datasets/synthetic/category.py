"""Categories: parametric models whose instances share one topology and one set of named keypoints."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from mambamatcher.datasets.synthetic.body import Keypoint, Part
from mambamatcher.datasets.synthetic.loft import SEGMENTS, loft, ring_count, triangulate
from mambamatcher.registry import Registry

Parameters = Mapping[str, float]
Ranges = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Topology:
    """What all instances of a category share: how vertices form triangles, and which vertices are keypoints.

    `part` and `material` say what each triangle belongs to. `around` marks the triangles of which one must face the
    viewer if a keypoint is to be seen. `canonical` holds the vertices of the typical instance, scaled to [-1, 1]:
    coordinates for patterns that stick to the surface.
    """

    triangles: Int[np.ndarray, "triangle 3"]
    part: Int[np.ndarray, " triangle"]
    material: Int[np.ndarray, " triangle"]
    keypoints: Int[np.ndarray, " keypoint"]
    around: Bool[np.ndarray, "keypoint triangle"]
    canonical: Float[np.ndarray, "vertex 3"]


@dataclass(frozen=True, eq=False)
class Category:
    """A parametric articulated model.

    Every parameter of `build`, shape and pose alike, is drawn from its range for every instance. `look` is an entry of
    `coat.LOOKS`, and `pitch` is the range of the camera's pitch in degrees.
    """

    build: Callable[[Parameters], list[Part]]
    ranges: Ranges
    keypoints: Sequence[Keypoint]
    look: str
    pitch: tuple[float, float] = (-5.0, 25.0)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of all keypoints; those with two sides start with `L_` or `R_`."""
        return tuple(keypoint.name for keypoint in self.keypoints)

    def draw(self, rng: np.random.Generator) -> dict[str, float]:
        """Draw the shape and pose of one instance."""
        return {name: float(rng.uniform(low, high)) for name, (low, high) in self.ranges.items()}

    def typical(self) -> dict[str, float]:
        """Return the middle of every range."""
        return {name: (low + high) / 2 for name, (low, high) in self.ranges.items()}

    def vertices(self, parameters: Parameters) -> Float[np.ndarray, "vertex 3"]:
        """Return the surface of one instance in the object frame."""
        return np.concatenate([loft(part) for part in self.build(parameters)])

    @cached_property
    def topology(self) -> Topology:
        """Work out what all instances share, on the typical one."""
        parts, vertices = self.build(self.typical()), self.vertices(self.typical())
        triangles, part_of = triangulate([ring_count(part) for part in parts])
        keypoints = np.array([_vertex(keypoint, parts, vertices) for keypoint in self.keypoints])
        centred = vertices - (vertices.min(axis=0) + vertices.max(axis=0)) / 2
        return Topology(
            triangles=triangles,
            part=part_of,
            material=np.array([part.material for part in parts])[part_of],
            keypoints=keypoints,
            around=np.stack([_around(vertices[vertex], vertices)[triangles].any(axis=1) for vertex in keypoints]),
            canonical=centred / np.abs(centred).max(),
        )


CATEGORIES: Registry[Category] = Registry("synthetic category")


def _vertex(keypoint: Keypoint, parts: Sequence[Part], vertices: Float[np.ndarray, "vertex 3"]) -> int:
    """Find the vertex of a keypoint's ring that lies farthest in its direction."""
    index = [part.name for part in parts].index(keypoint.part)
    ring = sum(map(ring_count, parts[:index])) + round(keypoint.at * (ring_count(parts[index]) - 1))
    first = ring * SEGMENTS
    return first + int((vertices[first : first + SEGMENTS] @ np.array(keypoint.direction)).argmax())


def _around(point: Float[np.ndarray, " 3"], vertices: Float[np.ndarray, "vertex 3"]) -> Bool[np.ndarray, " vertex"]:
    """Find the vertices that coincide with a point: one, or the whole ring at the tip of a part."""
    return np.abs(vertices - point).max(axis=1) < 1e-9
