"""A perspective camera that fits an object to the image.

Camera frame: x to the right of the image, y down, z away from the viewer. Screen coordinates are continuous pixels (0
is the left or top edge, pixel i has its centre at i + 0.5) with the inverse depth as third number, because that varies
linearly over the image of a flat surface.
"""

from dataclasses import dataclass
from math import cos, radians, sin

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """Where an object is seen from, in degrees, and which part of the image it fills.

    At yaw 0 the object faces the viewer, at 90 the right edge of the image, at -90 the left; a positive pitch looks
    down on it. `distance` is in object radii. The object's `centre` and longest side, its `extent`, are fractions of
    the image.
    """

    yaw: float
    pitch: float = 10.0
    roll: float = 0.0
    distance: float = 5.0
    centre: tuple[float, float] = (0.5, 0.5)
    extent: float = 0.8

    def rotation(self) -> Float[np.ndarray, "3 3"]:
        """Return the matrix that takes object-frame vectors (as columns) to the camera frame."""
        yaw, pitch, roll = radians(self.yaw), radians(self.pitch), radians(self.roll)
        turn = np.array([[sin(yaw), cos(yaw), 0.0], [0.0, 0.0, -1.0], [-cos(yaw), sin(yaw), 0.0]])
        tilt = np.array([[1.0, 0.0, 0.0], [0.0, cos(pitch), -sin(pitch)], [0.0, sin(pitch), cos(pitch)]])
        lean = np.array([[cos(roll), -sin(roll), 0.0], [sin(roll), cos(roll), 0.0], [0.0, 0.0, 1.0]])
        return lean @ tilt @ turn


@dataclass(frozen=True, eq=False, slots=True)
class Camera:
    """A viewpoint made concrete for one object and one image."""

    rotation: Float[np.ndarray, "3 3"]
    pivot: Float[np.ndarray, " 3"]
    depth: float
    focal: float = 1.0
    shift: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def fit(cls, vertices: Float[np.ndarray, "vertex 3"], viewpoint: Viewpoint, size: tuple[int, int]) -> "Camera":
        """Place and zoom a camera so that the object fills its place in a `(width, height)` image."""
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        radius = float(np.linalg.norm(high - low)) / 2
        rough = cls(viewpoint.rotation(), (low + high) / 2, viewpoint.distance * radius)
        screen = rough.project(rough.to_camera(vertices))[:, :2]
        left_top, right_bottom = screen.min(axis=0), screen.max(axis=0)
        focal = viewpoint.extent / float(((right_bottom - left_top) / size).max())
        x, y = np.multiply(viewpoint.centre, size) - focal * (left_top + right_bottom) / 2
        return cls(rough.rotation, rough.pivot, rough.depth, focal, (float(x), float(y)))

    def to_camera(self, points: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, "point 3"]:
        """Move object-frame points to the camera frame."""
        # einsum, not matmul: BLAS may round differently with another number of threads.
        return np.einsum("ij,nj->ni", self.rotation, points - self.pivot) + np.array([0.0, 0.0, self.depth])

    def project(self, points: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, "point 3"]:
        """Project camera-frame points to the screen, as `(x, y, inverse depth)`."""
        inverse = 1.0 / points[:, 2:]
        return np.concatenate([self.focal * points[:, :2] * inverse + self.shift, inverse], axis=1)
