"""The colour of the surface: coat, one lamp, the sky and the shade of nearer surfaces around a pixel."""

import numpy as np
from jaxtyping import Float, Int

from mambamatcher.datasets.synthetic.category import Topology
from mambamatcher.datasets.synthetic.coat import Coat, Material
from mambamatcher.datasets.synthetic.raster import SurfacePoints
from mambamatcher.datasets.synthetic.scene import Lamp, Scene

# Eyes, glass and lamps shine whatever the rest of an object is like.
_GLASS_GLOSS = 0.5
_VIEWER = np.array([0.0, 0.0, -1.0])


def shade(
    points: SurfacePoints,
    inverse: Float[np.ndarray, "rows columns"],
    in_camera: Float[np.ndarray, "vertex 3"],
    up: Float[np.ndarray, " 3"],
    scene: Scene,
    topology: Topology,
) -> Float[np.ndarray, "point 3"]:
    """Return the colours of surface points in linear light.

    Args:
        points: The points to colour.
        inverse: The inverse depth at each pixel.
        in_camera: The object's vertices in the camera frame.
        up: The direction of the sky in the camera frame.
        scene: Which coat and which lamp to use.
        topology: The triangles, materials and canonical coordinates of the category.
    """
    canonical = points.interpolate(topology.canonical, topology.triangles)
    normals = points.interpolate(_vertex_normals(in_camera, topology.triangles), topology.triangles)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    material = topology.material[points.triangle]
    light, highlight = _illuminate(normals, up, scene.lamp)
    light *= (1 - 0.55 * _neighbour_shade(points, inverse)) * scene.coat.roughness(canonical)
    glass = (material == Material.DARK) | (material == Material.LIGHT)
    highlight *= np.where(glass, _GLASS_GLOSS, scene.coat.gloss)
    return _colours(scene.coat, material, canonical) * light[:, None] + highlight[:, None]


def _colours(
    coat: Coat, material: Int[np.ndarray, " point"], canonical: Float[np.ndarray, "point 3"]
) -> Float[np.ndarray, "point 3"]:
    colours = coat.palette[material]
    patterned = material == Material.COAT
    share = coat.coverage(canonical[patterned])[:, None]
    colours[patterned] += share * (coat.second - colours[patterned])
    return colours


def _vertex_normals(
    vertices: Float[np.ndarray, "vertex 3"], triangles: Int[np.ndarray, "triangle 3"]
) -> Float[np.ndarray, "vertex 3"]:
    """Return the mean normal of the triangles around each vertex, weighted by area."""
    a, b, c = (vertices[triangles[:, corner]] for corner in range(3))
    normals = np.cross(b - a, c - a).repeat(3, axis=0)
    sums = [np.bincount(triangles.ravel(), normals[:, axis], len(vertices)) for axis in range(3)]
    total = np.stack(sums, axis=1)
    return total / np.linalg.norm(total, axis=1, keepdims=True)


def _illuminate(
    normals: Float[np.ndarray, "point 3"], up: Float[np.ndarray, " 3"], lamp: Lamp
) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """Return the diffuse light on a surface and the strength of its highlight (Blinn-Phong)."""
    towards = np.array(lamp.direction) / np.linalg.norm(lamp.direction)
    halfway = (towards + _VIEWER) / np.linalg.norm(towards + _VIEWER)
    diffuse = np.maximum((np.einsum("ni,i->n", normals, towards) + 0.2) / 1.2, 0.0)
    sky = 0.5 + 0.5 * np.einsum("ni,i->n", normals, up)
    highlight = np.maximum(np.einsum("ni,i->n", normals, halfway), 0.0) ** 24
    return lamp.strength * diffuse + lamp.ambient * (0.35 + 0.65 * sky), lamp.strength * highlight


def _neighbour_shade(points: SurfacePoints, inverse: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, " point"]:
    """Return how much nearer surfaces around each pixel shade it, in [0, 1]."""
    height, width = inverse.shape
    reach = max(width // 64, 1)
    here, total = inverse[points.rows, points.columns], np.zeros(len(points.rows))
    for down, right in ((-reach, 0), (reach, 0), (0, -reach), (0, reach)):
        rows, columns = np.clip(points.rows + down, 0, height - 1), np.clip(points.columns + right, 0, width - 1)
        nearer = inverse[rows, columns] / here - 1
        # Surfaces that are much nearer are too far from this one to shade it.
        total += np.where((nearer > 0.002) & (nearer < 0.15), np.minimum(50 * nearer, 1.0), 0.0)
    return total / 4
