"""Small files of annotated images, as people have them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from mambamatcher.io.points import PointSet, make_points, write_points

SIZE = 48, 36
NAMES = ("left eye", "right eye", "nose", "tail")


def write_own(folder: Path, count: int, suffix: str = ".coco.json", names: Sequence[str] = NAMES) -> tuple[Path, Path]:
    """Write different images with points of these names; return the file of points and the folder of the images."""
    images = folder / "images"
    images.mkdir(parents=True)
    annotations: dict[str, PointSet] = {}
    for number in range(count):
        generator = np.random.default_rng(number)
        Image.fromarray(generator.integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)).save(
            images / f"{number:03}.png"
        )
        annotations[f"{number:03}.png"] = make_points(generator.uniform(1, 35, (len(names), 2)), names)
    file = folder / f"points{suffix}"
    write_points(file, annotations)
    return file, images
