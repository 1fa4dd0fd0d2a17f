"""How a scene becomes a picture and its annotation."""

import numpy as np
from jaxtyping import Float, UInt8

from mambamatcher.datasets.synthetic.backdrop import COARSENESS, GRAIN, enlarge, paint_occluders, scenery, soften
from mambamatcher.datasets.synthetic.camera import bounds, fall
from mambamatcher.datasets.synthetic.coats import stack
from mambamatcher.datasets.synthetic.develop import develop, shrink, smooth_edges
from mambamatcher.datasets.synthetic.parts import CATEGORIES, topology
from mambamatcher.datasets.synthetic.raster import rasterise
from mambamatcher.datasets.synthetic.scene import Scene
from mambamatcher.datasets.synthetic.shade import Light, shade
from mambamatcher.datasets.synthetic.stage import Size, Stage, set_up
from mambamatcher.datasets.synthetic.view import SyntheticView, mask_box


def render(scene: Scene, size: Size, supersample: int = 1) -> SyntheticView:
    """Draw a scene as a `(width, height)` picture; `supersample` is odd."""
    return finish(scene, set_up(scene, size, supersample))


def finish(scene: Scene, stage: Stage) -> SyntheticView:
    """Paint a scene that has been set up, and write down what is known about the picture."""
    category = CATEGORIES[scene.main.category]
    height, width = stage.main_surface.shape
    (left, top, _), (right, bottom, _) = (corner.tolist() for corner in bounds(stage.main_screen))
    mask = stage.main_surface >= 0
    return SyntheticView(
        image=_paint(scene, stage),
        mask=mask,
        keypoints=stage.main_screen[topology(category).keypoints, :2],
        keypoint_names=category.names,
        visible=stage.visible,
        bbox=mask_box(mask),
        category=scene.main.category,
        viewpoint=scene.viewpoint,
        occluded=stage.occluded,
        truncated=left < 0 or top < 0 or right > width or bottom > height,
        surface=stage.main_surface,
        screen=stage.main_screen,
    )


def _paint(scene: Scene, stage: Stage) -> UInt8[np.ndarray, "height width 3"]:
    light = _light(scene, stage)
    picture = _backdrop(scene, stage, light)
    coats = stack([instance.coat for instance in scene.instances])
    shade(stage.seen, stage.nearest, stage.surfaces, coats, light, picture)
    seed = scene.main.coat.seed
    if len(scene.occluders):
        paint_occluders(scene.occluders, seed, stage.seen, picture)
    supersample = len(stage.seen) // len(stage.main_surface)
    if supersample == 1:
        smooth_edges(picture, stage.seen, stage.labels)
    else:
        picture = shrink(picture, supersample)
    return develop(picture, scene.exposure, seed)


def _light(scene: Scene, stage: Stage) -> Light:
    direction = np.array(scene.lamp.direction) / np.linalg.norm(scene.lamp.direction)
    up = stage.camera.rotation[:, 2]
    return Light(tuple(direction.tolist()), tuple(up.tolist()), scene.lamp.strength, scene.lamp.ambient)


def _backdrop(scene: Scene, stage: Stage, light: Light) -> Float[np.ndarray, "rows columns 3"]:
    rows, columns = stage.seen.shape
    coarse = (max(columns // COARSENESS, 2), max(rows // COARSENESS, 2))
    if CATEGORIES[scene.main.category].grounded:
        towards = stage.camera.rotation.T @ np.array(light.direction)
        _, screen = stage.camera.project(fall(stage.vertices, towards, len(stage.main_screen)))
        screen *= [coarse[0] / columns, coarse[1] / rows, 1.0]
        shadow = soften(rasterise(screen, stage.surfaces.triangles, coarse)[0])
    else:
        shadow = np.zeros(coarse[::-1], np.float32)
    return enlarge(scenery(scene.backdrop, shadow), scene.backdrop, GRAIN, (columns, rows))
