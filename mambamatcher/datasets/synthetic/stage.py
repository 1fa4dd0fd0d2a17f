"""The geometry of a scene: what stands where before the camera, and what of it is seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from mambamatcher.datasets.synthetic.backdrop import cover
from mambamatcher.datasets.synthetic.camera import Camera, bounds, fit_camera, vertex_normals
from mambamatcher.datasets.synthetic.parts import CATEGORIES, Topology, topology
from mambamatcher.datasets.synthetic.raster import HIDDEN, NOTHING, rasterise, vertices_seen
from mambamatcher.datasets.synthetic.scene import Companion, Scene
from mambamatcher.datasets.synthetic.shade import Surfaces

Size = tuple[int, int]


@dataclass(frozen=True, eq=False, slots=True)
class Stage:
    """All objects before the camera, the main one first, and the surface that each sample of the picture shows.

    `seen` and `nearest` hold samples, of which a pixel has `supersample` squared; the rest is in pixels.
    """

    camera: Camera
    vertices: Float[np.ndarray, "vertex 3"]
    surfaces: Surfaces
    labels: Int[np.ndarray, " triangle"]
    seen: Int[np.ndarray, "rows columns"]
    nearest: Float[np.ndarray, "rows columns"]
    main_surface: Int[np.ndarray, "height width"]
    main_screen: Float[np.ndarray, "main 3"]
    visible: Bool[np.ndarray, " keypoint"]
    occluded: bool


def set_up(scene: Scene, size: Size, supersample: int = 1) -> Stage:
    """Place all objects before the camera and find out what of them is seen.

    `supersample` is odd, so that the middle sample of each block lies on the pixel centre and carries the geometry.
    """
    samples = (size[0] * supersample, size[1] * supersample)
    main = CATEGORIES[scene.main.category].vertices(scene.main.parameters)
    camera = fit_camera(main, scene.viewpoint, scene.placement, samples)
    shared = [topology(CATEGORIES[instance.category]) for instance in scene.instances]
    vertices = [main, *(_beside(companion, main, camera) for companion in scene.companions)]
    in_camera, screen = camera.project(_join(vertices))
    surfaces = _surfaces(shared, in_camera, screen)
    seen, nearest = rasterise(screen, surfaces.triangles, samples)
    main_triangles = len(shared[0].triangles)
    occluded = bool(scene.companions) and _is_hidden(surfaces, seen, main_triangles)
    if len(scene.occluders):
        occluded |= cover(scene.occluders, scene.main.coat.seed, main_triangles, seen)
    middle = slice(supersample // 2, None, supersample)
    main_surface = np.ascontiguousarray(seen[middle, middle])
    if scene.companions:
        main_surface = np.where(main_surface < main_triangles, main_surface, HIDDEN)
    main_screen = screen[: len(main)] * [1 / supersample, 1 / supersample, 1.0]
    return Stage(
        camera=camera,
        vertices=_join(vertices),
        surfaces=surfaces,
        labels=surfaces.owner * 1000 + _join([each.part for each in shared]),
        seen=seen,
        nearest=nearest,
        main_surface=main_surface,
        main_screen=main_screen,
        visible=vertices_seen(main_surface, shared[0].on(main_screen), shared[0].keypoints, shared[0].around),
        occluded=occluded,
    )


def _join(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]


def _surfaces(
    shared: Sequence[Topology], in_camera: Float[np.ndarray, "vertex 3"], screen: Float[np.ndarray, "vertex 3"]
) -> Surfaces:
    starts = np.cumsum([0, *(len(each.canonical) for each in shared)], dtype=np.int32)[1:-1]
    later = [each.triangles + start for each, start in zip(shared[1:], starts, strict=True)]
    triangles = _join([shared[0].triangles, *later])
    return Surfaces(
        screen=screen,
        normals=vertex_normals(in_camera, triangles),
        canonical=_join([each.canonical for each in shared]),
        triangles=triangles,
        owner=_join([np.full(len(each.triangles), index, np.int32) for index, each in enumerate(shared)]),
        material=_join([each.material for each in shared]),
    )


def _beside(companion: Companion, main: Float[np.ndarray, "vertex 3"], camera: Camera) -> Float[np.ndarray, "other 3"]:
    """Set a companion on the ground of the main object."""
    points = CATEGORIES[companion.instance.category].vertices(companion.instance.parameters)
    (low, high), (own_low, own_high) = bounds(main), bounds(points)
    radius = float(np.linalg.norm(high - low)) / 2
    scale = companion.scale * 2 * radius / float(np.linalg.norm(own_high - own_low))
    turn = np.radians(companion.yaw)
    spin = np.array([[np.cos(turn), np.sin(turn), 0.0], [-np.sin(turn), np.cos(turn), 0.0], [0.0, 0.0, 1.0]])
    right, back = camera.rotation[0] * [1.0, 1.0, 0.0], camera.rotation[2] * [1.0, 1.0, 0.0]
    offset = right / np.linalg.norm(right) * companion.right + back / np.linalg.norm(back) * companion.back
    foot = np.array([*((own_low + own_high) / 2)[:2], own_low[2]])
    ground = np.array([*((low + high) / 2)[:2], low[2]])
    return (points - foot) @ (spin * scale) + (ground + offset * radius)


def _is_hidden(surfaces: Surfaces, seen: Int[np.ndarray, "rows columns"], main_triangles: int) -> bool:
    """Say whether companions stand before the main object."""
    rows, columns = seen.shape
    alone, _ = rasterise(surfaces.screen, surfaces.triangles[:main_triangles], (columns, rows))
    return bool(((alone != NOTHING) & (seen >= main_triangles)).any())
