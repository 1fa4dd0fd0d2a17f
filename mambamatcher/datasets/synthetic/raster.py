"""Which triangle is seen at each pixel, and where a surface point lands in another image.

Screen vertices are `(x, y, inverse depth)` in continuous pixels; nearer means a larger inverse depth.
"""

from math import ceil, floor
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numba import boolean, float32, float64, int32, types
from PIL import Image, ImageFilter

from mambamatcher.kernels.build import kernel

NOTHING = -1
# A point counts as seen when the surface drawn at its pixel is nearer by no more than this fraction of its depth. In
# the same part more is allowed: it falls away fast near its outline, and its far side is told by its orientation.
_OTHER_PART, _SAME_PART = 0.004, 0.02
# Square pixels below which a triangle counts as edge-on; those at the tip of a part have no area at all.
_EDGE_ON = 1e-9


class Mesh(NamedTuple):
    """An object on the screen: its vertices, its triangles and the part that each triangle belongs to."""

    screen: Float[np.ndarray, "vertex 3"]
    triangles: Int[np.ndarray, "triangle 3"]
    part: Int[np.ndarray, " triangle"]

    def faces_viewer(self) -> Bool[np.ndarray, " triangle"]:
        """Return which triangles show their outer side."""
        x, y = self.screen[self.triangles, 0].T, self.screen[self.triangles, 1].T
        return (x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]) < -_EDGE_ON


class DepthBuffer(NamedTuple):
    """What each pixel centre shows: the index of a triangle, or `NOTHING`, and its inverse depth.

    The inverse depth is 0 for the background, and infinite for what stands in front of everything.
    """

    surface: Int[np.ndarray, "height width"]
    inverse: Float[np.ndarray, "height width"]


class SurfacePoints(NamedTuple):
    """The surface points seen at pixel centres: where, on which triangle, with which barycentric weights."""

    rows: Int[np.ndarray, " point"]
    columns: Int[np.ndarray, " point"]
    triangle: Int[np.ndarray, " point"]
    weights: Float[np.ndarray, "point 3"]

    def interpolate(
        self, values: Float[np.ndarray, "vertex channel"], triangles: Int[np.ndarray, "triangle 3"]
    ) -> Float[np.ndarray, "point channel"]:
        """Return values given at the vertices, at these points."""
        return np.einsum("nk,nkc->nc", self.weights, values[triangles[self.triangle]])


def rasterise(mesh: Mesh, size: tuple[int, int]) -> DepthBuffer:
    """Draw the triangles that face the viewer into a `(width, height)` image."""
    surface, inverse = np.full(size[::-1], NOTHING, np.int32), np.zeros(size[::-1], np.float32)
    _rasterise(mesh.screen, mesh.triangles, mesh.faces_viewer(), surface, inverse)
    return DepthBuffer(surface, inverse)


@kernel(types.void(float64[:, :], int32[:, :], boolean[:], int32[:, :], float32[:, :]))
def _rasterise(
    screen: np.ndarray, triangles: np.ndarray, drawn: np.ndarray, surface: np.ndarray, inverse: np.ndarray
) -> None:
    height, width = surface.shape
    for t in range(len(triangles)):
        if not drawn[t]:
            continue
        i, j, k = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        x0, y0, w0 = screen[i, 0], screen[i, 1], screen[i, 2]
        x1, y1, w1 = screen[j, 0], screen[j, 1], screen[j, 2]
        x2, y2, w2 = screen[k, 0], screen[k, 1], screen[k, 2]
        left, right = max(ceil(min(x0, x1, x2) - 0.5), 0), min(floor(max(x0, x1, x2) - 0.5), width - 1)
        top, bottom = max(ceil(min(y0, y1, y2) - 0.5), 0), min(floor(max(y0, y1, y2) - 0.5), height - 1)
        scale = 1.0 / ((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0))
        for row in range(top, bottom + 1):
            for column in range(left, right + 1):
                x, y = column + 0.5 - x0, row + 0.5 - y0
                b1, b2 = (x * (y2 - y0) - (x2 - x0) * y) * scale, ((x1 - x0) * y - x * (y1 - y0)) * scale
                if b1 >= 0 and b2 >= 0 and b1 + b2 <= 1:
                    w = np.float32(w0 + b1 * (w1 - w0) + b2 * (w2 - w0))
                    if w > inverse[row, column]:
                        inverse[row, column], surface[row, column] = w, t


def surface_points(buffer: DepthBuffer, mesh: Mesh) -> SurfacePoints:
    """Return the surface point that each pixel centre on the object shows."""
    rows, columns = np.nonzero(buffer.surface >= 0)
    triangle = buffer.surface[rows, columns]
    corners = mesh.screen[mesh.triangles[triangle]]
    (x1, y1), (x2, y2) = (corners[:, 1, :2] - corners[:, 0, :2]).T, (corners[:, 2, :2] - corners[:, 0, :2]).T
    x, y = columns + 0.5 - corners[:, 0, 0], rows + 0.5 - corners[:, 0, 1]
    area = x1 * y2 - x2 * y1
    b1, b2 = (x * y2 - x2 * y) / area, (x1 * y - x * y1) / area
    # Weights on the screen times inverse depths are, up to their sum, weights on the surface.
    weights = np.stack([1 - b1 - b2, b1, b2], axis=1) * corners[:, :, 2]
    return SurfacePoints(rows, columns, triangle, weights / weights.sum(axis=1, keepdims=True))


def transfer(
    points: SurfacePoints, buffer: DepthBuffer, mesh: Mesh
) -> tuple[Float[np.ndarray, "point 2"], Bool[np.ndarray, " point"]]:
    """Project surface points of one image into another.

    Args:
        points: The points, on triangles that both images share.
        buffer: What the other image shows.
        mesh: The object in the other image.

    Returns:
        The positions in (x, y) pixels, and which of them can be seen there.
    """
    corners = mesh.screen[mesh.triangles[points.triangle]]
    # Weights apply to camera-frame points, of which the screen holds x / depth, y / depth and 1 / depth.
    deep = points.weights / corners[:, :, 2]
    depth = deep.sum(axis=1, keepdims=True)
    screen = np.concatenate([np.einsum("nk,nkc->nc", deep, corners[:, :, :2]), np.ones_like(depth)], axis=1) / depth
    seen = mesh.faces_viewer()[points.triangle] & unhidden(screen, mesh.part[points.triangle], buffer, mesh)
    return screen[:, :2], seen


def unhidden(
    points: Float[np.ndarray, "point 3"], part: Int[np.ndarray, " point"], buffer: DepthBuffer, mesh: Mesh
) -> Bool[np.ndarray, " point"]:
    """Return which points `(x, y, inverse depth)` of parts lie in the image with nothing nearer at their pixels.

    Their pixel or one beside it must show the object: what is thinner than a pixel may be drawn nowhere.
    """
    height, width = buffer.surface.shape
    x, y, inverse = points.T
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    rows, columns = np.where(inside, y, 0).astype(int), np.where(inside, x, 0).astype(int)
    tolerance = np.where(mesh.part[buffer.surface[rows, columns]] == part, _SAME_PART, _OTHER_PART)
    drawn = Image.fromarray((buffer.surface >= 0).astype(np.uint8)).filter(ImageFilter.MaxFilter(3))
    shown = np.asarray(drawn)[rows, columns] > 0
    return inside & shown & (buffer.inverse[rows, columns] <= inverse * (1 + tolerance))
