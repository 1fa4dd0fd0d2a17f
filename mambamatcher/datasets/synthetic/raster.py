"""Which triangle is seen at each pixel, and where a surface point lands in another picture.

Screen vertices are `(x, y, inverse depth)` in continuous pixels. Nearer means a larger inverse depth. `surface` holds
the index of the triangle seen at each pixel centre. The kernels read single numbers and never rows of arrays: Numba
counts references to every row, which costs more than the arithmetic.
"""

from math import ceil, floor
from typing import NamedTuple

import numpy as np

from mambamatcher.datasets.synthetic.compiled import compiled

# What a pixel shows where it does not show the object: scenery only, or (this and all below) what may hide it.
NOTHING, HIDDEN = -1, -2
# A point counts as seen when the surface drawn there is nearer by no more than this fraction of its depth. Within a
# part more is allowed: the surface falls away fast near its outline, and its far side is told by its direction.
DEPTH_TOLERANCE, ROUNDNESS = 0.004, 0.02
# Square pixels below which a triangle counts as edge-on; those at the tip of a part have no area at all.
_EDGE_ON = 1e-9


class Mesh(NamedTuple):
    """An object on the screen: its vertices, its triangles and the part that each triangle belongs to."""

    screen: np.ndarray
    triangles: np.ndarray
    part: np.ndarray


Corners = tuple[int, int, int]
Triple = tuple[float, float, float]


@compiled
def corners(triangles: np.ndarray, index: int) -> Corners:
    """Return the vertices of a triangle."""
    return triangles[index, 0], triangles[index, 1], triangles[index, 2]


@compiled
def flat_weights(screen: np.ndarray, triangle: Corners, x: float, y: float) -> tuple[float, float]:
    """Return the barycentric weights, on the screen, of a triangle's second and third vertex at `(x, y)`."""
    i, j, k = triangle
    x0, y0 = screen[i, 0], screen[i, 1]
    x1, y1 = screen[j, 0] - x0, screen[j, 1] - y0
    x2, y2 = screen[k, 0] - x0, screen[k, 1] - y0
    scale = 1.0 / (x1 * y2 - x2 * y1)
    return ((x - x0) * y2 - x2 * (y - y0)) * scale, (x1 * (y - y0) - (x - x0) * y1) * scale


@compiled
def weights(screen: np.ndarray, triangle: Corners, x: float, y: float) -> Triple:
    """Return the perspective-correct barycentric weights of the surface point seen at `(x, y)`."""
    i, j, k = triangle
    b1, b2 = flat_weights(screen, triangle, x, y)
    p0, p1, p2 = (1 - b1 - b2) * screen[i, 2], b1 * screen[j, 2], b2 * screen[k, 2]
    scale = 1.0 / (p0 + p1 + p2)
    return p0 * scale, p1 * scale, p2 * scale


@compiled
def mix(values: np.ndarray, axis: int, triangle: Corners, weight: Triple) -> float:
    """Interpolate one coordinate of a vertex attribute."""
    i, j, k = triangle
    return weight[0] * values[i, axis] + weight[1] * values[j, axis] + weight[2] * values[k, axis]


@compiled
def rasterise(screen: np.ndarray, triangles: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest triangle that faces the viewer at each pixel centre, and its inverse depth (0 for none)."""
    width, height = size
    nearest = np.zeros((height, width), np.float32)
    surface = np.full((height, width), NOTHING, np.int32)
    for t in range(len(triangles)):
        i, j, k = corners(triangles, t)
        x0, y0, w0 = screen[i, 0], screen[i, 1], screen[i, 2]
        x1, y1, w1 = screen[j, 0], screen[j, 1], screen[j, 2]
        x2, y2, w2 = screen[k, 0], screen[k, 1], screen[k, 2]
        # The picture's y axis points down, so triangles that turn outwards have a negative area here.
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        if area > -_EDGE_ON:
            continue
        left = max(ceil(min(x0, x1, x2) - 0.5), 0)
        right = min(floor(max(x0, x1, x2) - 0.5), width - 1)
        top = max(ceil(min(y0, y1, y2) - 0.5), 0)
        bottom = min(floor(max(y0, y1, y2) - 0.5), height - 1)
        if left > right or top > bottom:
            continue
        scale = 1.0 / area
        right1, down1 = (y2 - y0) * scale, (x0 - x2) * scale
        right2, down2 = (y0 - y1) * scale, (x1 - x0) * scale
        for row in range(top, bottom + 1):
            dx, dy = left + 0.5 - x0, row + 0.5 - y0
            b1, b2 = dx * right1 + dy * down1, dx * right2 + dy * down2
            for column in range(left, right + 1):
                if b1 >= 0 and b2 >= 0 and b1 + b2 <= 1:
                    w = np.float32(w0 + b1 * (w1 - w0) + b2 * (w2 - w0))
                    if w > nearest[row, column]:
                        nearest[row, column] = w
                        surface[row, column] = t
                b1 += right1
                b2 += right2
    return surface, nearest


@compiled
def place(screen: np.ndarray, triangle: Corners, weight: Triple) -> Triple:
    """Project the surface point with the given weights: its `(x, y, inverse depth)`."""
    i, j, k = triangle
    # Weights apply to camera-frame points, of which the screen holds x / depth, y / depth and 1 / depth.
    deep = weight[0] / screen[i, 2], weight[1] / screen[j, 2], weight[2] / screen[k, 2]
    depth = deep[0] + deep[1] + deep[2]
    return mix(screen, 0, triangle, deep) / depth, mix(screen, 1, triangle, deep) / depth, 1.0 / depth


@compiled
def faces_viewer(screen: np.ndarray, triangle: Corners) -> bool:
    """Say whether a triangle shows its outer side."""
    i, j, k = triangle
    x1, y1 = screen[j, 0] - screen[i, 0], screen[j, 1] - screen[i, 1]
    x2, y2 = screen[k, 0] - screen[i, 0], screen[k, 1] - screen[i, 1]
    return x1 * y2 - x2 * y1 < -_EDGE_ON


@compiled
def _depth_at(screen: np.ndarray, triangle: Corners, x: float, y: float) -> float:
    """Return the inverse depth of a triangle at `(x, y)`, kept within that of its vertices."""
    b1, b2 = flat_weights(screen, triangle, x, y)
    w0, w1, w2 = screen[triangle[0], 2], screen[triangle[1], 2], screen[triangle[2], 2]
    return min(max(w0 + b1 * (w1 - w0) + b2 * (w2 - w0), min(w0, w1, w2)), max(w0, w1, w2))


@compiled
def is_seen(surface: np.ndarray, mesh: Mesh, point: Triple, part: int) -> bool:
    """Say whether nothing hides a point of a part: its pixel shows no nearer surface.

    On the outline the pixel's centre may miss the object; then a neighbour must show the same part.
    """
    height, width = surface.shape
    x, y, w = point
    if not (0 <= x < width and 0 <= y < height):
        return False
    column, row = int(x), int(y)
    here = surface[row, column]
    if here >= 0:
        tolerance = ROUNDNESS if mesh.part[here] == part else DEPTH_TOLERANCE
        return _depth_at(mesh.screen, corners(mesh.triangles, here), x, y) <= w * (1 + tolerance)
    if here == NOTHING:
        for r in range(max(row - 1, 0), min(row + 2, height)):
            for c in range(max(column - 1, 0), min(column + 2, width)):
                beside = surface[r, c]
                if beside >= 0 and mesh.part[beside] == part:
                    drawn = _depth_at(mesh.screen, corners(mesh.triangles, beside), x, y)
                    if abs(drawn - w) <= ROUNDNESS * w:
                        return True
    return False


@compiled
def vertices_seen(surface: np.ndarray, mesh: Mesh, vertices: np.ndarray, around: np.ndarray) -> np.ndarray:
    """Say which vertices can be seen: nothing hides them, and a triangle around them faces the viewer."""
    seen = np.zeros(len(vertices), np.bool_)
    for index in range(len(vertices)):
        vertex = vertices[index]
        point = mesh.screen[vertex, 0], mesh.screen[vertex, 1], mesh.screen[vertex, 2]
        if is_seen(surface, mesh, point, mesh.part[around[index, 0]]):
            for triangle in around[index]:
                seen[index] |= faces_viewer(mesh.screen, corners(mesh.triangles, triangle))
    return seen


@compiled
def carry(surfaces: tuple[np.ndarray, np.ndarray], meshes: tuple[Mesh, Mesh]) -> tuple[np.ndarray, np.ndarray]:
    """Carry every source pixel on the object to the target picture, and say which arrive where they can be seen.

    `surfaces` and `meshes` are (source, target).
    """
    surface, target = surfaces[0], surfaces[1]
    mesh, there = meshes[0], meshes[1]
    height, width = surface.shape
    positions = np.zeros((height, width, 2), np.float32)
    valid = np.zeros((height, width), np.bool_)
    for row in range(height):
        for column in range(width):
            seen = surface[row, column]
            if seen < 0:
                continue
            triangle = corners(mesh.triangles, seen)
            point = place(there.screen, triangle, weights(mesh.screen, triangle, column + 0.5, row + 0.5))
            positions[row, column, 0] = point[0]
            positions[row, column, 1] = point[1]
            if faces_viewer(there.screen, triangle):
                valid[row, column] = is_seen(target, there, point, mesh.part[seen])
    return positions, valid
