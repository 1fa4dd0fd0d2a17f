"""A perspective camera that fits an object to the picture.

Camera frame: x to the right of the picture, y down, z away from the viewer. Screen coordinates are continuous pixels
(0 is the left or top edge, pixel i has its centre at i + 0.5) with the inverse depth as third number, because that is
what varies linearly over the picture of a flat surface.
"""

from dataclasses import dataclass
from math import cos, radians, sin

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.synthetic.compiled import compiled


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """Where an object is seen from, in degrees.

    At yaw 0 the object faces the viewer, at 90 the right edge of the picture, at -90 the left; a positive pitch looks
    down on it. `distance` is in object radii.
    """

    yaw: float
    pitch: float = 10.0
    roll: float = 0.0
    distance: float = 5.0

    def rotation(self) -> Float[np.ndarray, "3 3"]:
        """Return the matrix that takes object vectors (as columns) to the camera frame."""
        yaw, pitch, roll = radians(self.yaw), radians(self.pitch), radians(self.roll)
        turn = np.array([[sin(yaw), cos(yaw), 0.0], [0.0, 0.0, -1.0], [-cos(yaw), sin(yaw), 0.0]])
        tilt = np.array([[1.0, 0.0, 0.0], [0.0, cos(pitch), -sin(pitch)], [0.0, sin(pitch), cos(pitch)]])
        lean = np.array([[cos(roll), -sin(roll), 0.0], [sin(roll), cos(roll), 0.0], [0.0, 0.0, 1.0]])
        return lean @ tilt @ turn


@dataclass(frozen=True, slots=True)
class Placement:
    """Which part of the picture the object's outline fills: centre and longest side, as fractions of the picture."""

    centre: tuple[float, float] = (0.5, 0.5)
    extent: float = 0.8


@dataclass(frozen=True, eq=False, slots=True)
class Camera:
    """A viewpoint made concrete for one object and one picture."""

    rotation: Float[np.ndarray, "3 3"]
    pivot: Float[np.ndarray, " 3"]
    depth: float
    focal: float
    shift: tuple[float, float]

    def project(
        self, points: Float[np.ndarray, "point 3"]
    ) -> tuple[Float[np.ndarray, "point 3"], Float[np.ndarray, "point 3"]]:
        """Return object-frame points in the camera frame, and on the screen as `(x, y, inverse depth)`."""
        return _project(points, self.rotation, self.pivot, self.depth, (self.focal, *self.shift))


def fit_camera(
    vertices: Float[np.ndarray, "vertex 3"], viewpoint: Viewpoint, placement: Placement, size: tuple[int, int]
) -> Camera:
    """Place and zoom the camera so that the object fills its place in a `(width, height)` picture."""
    low, high = bounds(vertices)
    radius = float(np.linalg.norm(high - low)) / 2
    rough = Camera(viewpoint.rotation(), (low + high) / 2, viewpoint.distance * radius, 1.0, (0.0, 0.0))
    (left, top, _), (right, bottom, _) = (corner.tolist() for corner in bounds(rough.project(vertices)[1]))
    focal = placement.extent / max((right - left) / size[0], (bottom - top) / size[1])
    shift = (
        placement.centre[0] * size[0] - focal * (left + right) / 2,
        placement.centre[1] * size[1] - focal * (top + bottom) / 2,
    )
    return Camera(rough.rotation, rough.pivot, rough.depth, focal, shift)


@compiled
def bounds(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest coordinates."""
    low, high = points[0].copy(), points[0].copy()
    for index in range(len(points)):
        for axis in range(3):
            low[axis] = min(low[axis], points[index, axis])
            high[axis] = max(high[axis], points[index, axis])
    return low, high


@compiled
def _project(
    points: np.ndarray, rotation: np.ndarray, pivot: np.ndarray, depth: float, lens: tuple[float, float, float]
) -> tuple[np.ndarray, np.ndarray]:
    in_camera, screen = np.empty_like(points), np.empty_like(points)
    focal, shift_x, shift_y = lens
    for index in range(len(points)):
        x, y, z = points[index, 0] - pivot[0], points[index, 1] - pivot[1], points[index, 2] - pivot[2]
        for axis in range(3):
            in_camera[index, axis] = rotation[axis, 0] * x + rotation[axis, 1] * y + rotation[axis, 2] * z
        in_camera[index, 2] += depth
        inverse = 1.0 / in_camera[index, 2]
        screen[index, 0] = focal * in_camera[index, 0] * inverse + shift_x
        screen[index, 1] = focal * in_camera[index, 1] * inverse + shift_y
        screen[index, 2] = inverse
    return in_camera, screen


@compiled
def vertex_normals(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return unit normals, each the mean of its triangles' weighted by area."""
    normals = np.zeros_like(vertices)
    for t in range(len(triangles)):
        i, j, k = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        ax, ay, az = vertices[j, 0] - vertices[i, 0], vertices[j, 1] - vertices[i, 1], vertices[j, 2] - vertices[i, 2]
        bx, by, bz = vertices[k, 0] - vertices[i, 0], vertices[k, 1] - vertices[i, 1], vertices[k, 2] - vertices[i, 2]
        nx, ny, nz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
        for vertex in (i, j, k):
            normals[vertex, 0] += nx
            normals[vertex, 1] += ny
            normals[vertex, 2] += nz
    for vertex in range(len(normals)):
        x, y, z = normals[vertex, 0], normals[vertex, 1], normals[vertex, 2]
        scale = 1.0 / max(np.sqrt(x * x + y * y + z * z), 1e-12)
        normals[vertex, 0], normals[vertex, 1], normals[vertex, 2] = x * scale, y * scale, z * scale
    return normals


@compiled
def fall(vertices: np.ndarray, towards: np.ndarray, main: int) -> np.ndarray:
    """Throw vertices along the light onto the ground, which the first `main` of them stand on.

    `towards` points to the lamp; one near the horizon is taken as higher, or shadows would have any length.
    """
    ground = vertices[0, 2]
    for index in range(main):
        ground = min(ground, vertices[index, 2])
    steepness = max(towards[2], 0.4)
    fallen = np.empty_like(vertices)
    for index in range(len(vertices)):
        path = (vertices[index, 2] - ground) / steepness
        for axis in range(3):
            fallen[index, axis] = vertices[index, axis] - path * towards[axis]
    return fallen
