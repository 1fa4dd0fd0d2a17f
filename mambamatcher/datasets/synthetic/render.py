"""How a scene becomes an image with exact annotations."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image, ImageFilter

from mambamatcher.datasets.synthetic.backdrop import COARSENESS, paint_backdrop
from mambamatcher.datasets.synthetic.camera import Camera
from mambamatcher.datasets.synthetic.category import CATEGORIES
from mambamatcher.datasets.synthetic.raster import NOTHING, DepthBuffer, Mesh, rasterise, surface_points, unhidden
from mambamatcher.datasets.synthetic.scene import Post, Scene
from mambamatcher.datasets.synthetic.shade import shade

Size = tuple[int, int]
# Brighter than white, but not so bright that an averaged highlight has jagged edges.
_BRIGHTEST = 1.5


@dataclass(frozen=True, eq=False)
class SyntheticView:
    """An image of one object and everything known about it.

    Points are (x, y) in continuous pixels: 0 is the left (top) edge, the width (height) the right (bottom) edge, and
    pixel i has its centre at i + 0.5. The mask and the box `(x1, y1, x2, y2)` cover what is seen of the object.
    Keypoints keep their true place where they are hidden or outside the image; `visible` marks those that can be seen.
    `buffer` says which triangle of `mesh` is seen at each pixel: together the exact surface coordinate of every pixel.
    """

    image: UInt8[np.ndarray, "height width 3"]
    mask: Bool[np.ndarray, "height width"]
    keypoints: Float[np.ndarray, "keypoint 2"]
    keypoint_names: tuple[str, ...]
    visible: Bool[np.ndarray, " keypoint"]
    bbox: tuple[float, float, float, float]
    category: str
    facing: str
    occluded: bool
    truncated: bool
    buffer: DepthBuffer
    mesh: Mesh

    @property
    def size(self) -> Size:
        """Return the image's `(width, height)`."""
        return self.image.shape[1], self.image.shape[0]


def render(scene: Scene, size: Size, supersample: int = 1) -> SyntheticView:
    """Draw a scene as a `(width, height)` image.

    `supersample` is the number of samples along each side of a pixel. It is odd, so that the middle sample lies on the
    pixel centre; that one carries the annotations.
    """
    category = CATEGORIES[scene.category]
    topology, vertices = category.topology, category.vertices(scene.parameters)
    samples = (size[0] * supersample, size[1] * supersample)
    camera = Camera.fit(vertices, scene.viewpoint, samples)
    mesh = Mesh(camera.project(camera.to_camera(vertices)), topology.triangles, topology.part)
    buffer = rasterise(mesh, samples)
    behind = _behind(scene.post, samples[0])
    occluded = bool((buffer.surface[:, behind] >= 0).any())
    buffer.surface[:, behind], buffer.inverse[:, behind] = NOTHING, np.inf
    image = _average(_paint(scene, camera, vertices, buffer, mesh), supersample) * np.array(scene.exposure, np.float32)

    middle = slice(supersample // 2, None, supersample)
    buffer = DepthBuffer(buffer.surface[middle, middle], buffer.inverse[middle, middle])
    mesh = mesh._replace(screen=mesh.screen / [supersample, supersample, 1])
    mask, keypoints = buffer.surface >= 0, mesh.screen[topology.keypoints]
    left, top, right, bottom = Image.fromarray(mask).getbbox() or (0, 0, 0, 0)
    part = topology.part[topology.around.argmax(axis=1)]
    faces_viewer = (topology.around & mesh.faces_viewer()).any(axis=1)
    outside = (mesh.screen[:, :2] < 0) | (mesh.screen[:, :2] > size)
    return SyntheticView(
        # The square root is close to the gamma curve of sRGB.
        image=np.clip(np.sqrt(image) * 255 + 0.5, 0, 255).astype(np.uint8),
        mask=mask,
        keypoints=keypoints[:, :2],
        keypoint_names=category.names,
        visible=faces_viewer & unhidden(keypoints, part, buffer, mesh),
        bbox=(float(left), float(top), float(right), float(bottom)),
        category=scene.category,
        facing="right" if np.sin(np.radians(scene.viewpoint.yaw)) >= 0 else "left",
        occluded=occluded,
        truncated=bool(outside.any()),
        buffer=buffer,
        mesh=mesh,
    )


def _behind(post: Post | None, width: int) -> slice:
    """Return the columns that a post covers."""
    if post is None:
        return slice(0, 0)
    edges = np.clip([post.x - post.half_width, post.x + post.half_width], 0.0, 1.0)
    left, right = np.rint(edges * width).astype(int)
    return slice(left, right)


def _paint(
    scene: Scene, camera: Camera, vertices: Float[np.ndarray, "vertex 3"], buffer: DepthBuffer, mesh: Mesh
) -> Float[np.ndarray, "rows columns 3"]:
    """Paint background, object and post in linear light."""
    topology, (rows, columns) = CATEGORIES[scene.category].topology, buffer.surface.shape
    image = paint_backdrop(scene.backdrop, _shadow(scene, camera, vertices, (columns, rows)), (columns, rows))
    points, up = surface_points(buffer, mesh), camera.rotation[:, 2]
    colours = shade(points, buffer.inverse, camera.to_camera(vertices), up, scene, topology)
    image[points.rows, points.columns] = colours
    if scene.post is not None:
        behind = _behind(scene.post, columns)
        across = np.linspace(-1, 1, behind.stop - behind.start)[:, None]
        image[:, behind] = (1 - 0.6 * across**2) * scene.post.colour
    return _smooth_edges(image, np.where(buffer.surface >= 0, topology.part[buffer.surface], NOTHING))


def _shadow(
    scene: Scene, camera: Camera, vertices: Float[np.ndarray, "vertex 3"], samples: Size
) -> Float[np.ndarray, "coarse_rows coarse_columns"]:
    """Return how dark the object's shadow makes the ground, in [0, 1]: the object flattened along the light."""
    topology = CATEGORIES[scene.category].topology
    towards = camera.rotation.T @ np.array(scene.lamp.direction) / np.linalg.norm(scene.lamp.direction)
    # A lamp near the horizon is taken as higher, or shadows would have any length.
    steepness = max(float(towards[2]), 0.4)
    height = vertices[:, 2:] - vertices[:, 2].min()
    coarse = (max(samples[0] // COARSENESS, 2), max(samples[1] // COARSENESS, 2))
    screen = camera.project(camera.to_camera(vertices - height / steepness * towards))
    screen *= [coarse[0] / samples[0], coarse[1] / samples[1], 1.0]
    covered = rasterise(Mesh(screen, topology.triangles, topology.part), coarse).surface >= 0
    shadow = Image.fromarray((255 * covered).astype(np.uint8))
    return np.asarray(shadow.filter(ImageFilter.BoxBlur(1)).filter(ImageFilter.BoxBlur(1))) / 255


def _smooth_edges(
    image: Float[np.ndarray, "rows columns 3"], labels: Int[np.ndarray, "rows columns"]
) -> Float[np.ndarray, "rows columns 3"]:
    """Average each pixel at the border of a part with its neighbours, and leave all others sharp."""
    shifts = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    edge = np.any([np.roll(labels, shift, (0, 1)) != labels for shift in shifts], axis=0)
    edge[[0, -1]] = edge[:, [0, -1]] = False
    rows, columns = np.nonzero(edge)
    around = sum(image[rows + down, columns + right] for down, right in shifts)
    image[rows, columns] = (4 * image[rows, columns] + around) / 8
    return image


def _average(image: Float[np.ndarray, "rows columns 3"], supersample: int) -> Float[np.ndarray, "height width 3"]:
    """Average the samples of each pixel."""
    image = np.minimum(image, _BRIGHTEST)
    samples = [image[row::supersample, column::supersample] for row, column in np.ndindex(supersample, supersample)]
    return np.sum(samples, axis=0) / len(samples)
