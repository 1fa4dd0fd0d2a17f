"""One picture and all that is known about it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from mambamatcher.datasets.synthetic.camera import Viewpoint


@dataclass(frozen=True, eq=False)
class SyntheticView:
    """A picture of one main object.

    Points are (x, y) in continuous pixels: 0 is the left (top) edge, the width (height) the right (bottom) edge, and
    pixel i has its centre at i + 0.5. The mask and the box `(x1, y1, x2, y2)` cover what is seen of the main object
    only. Keypoints keep their true place where they are hidden or outside the picture; `visible` says which can be
    seen. `surface` is the triangle of the object seen at each pixel centre (negative where there is none) and `screen`
    holds its projected vertices (x, y, inverse depth): together the exact surface coordinate of every pixel.
    """

    image: UInt8[np.ndarray, "height width 3"]
    mask: Bool[np.ndarray, "height width"]
    keypoints: Float[np.ndarray, "keypoint 2"]
    keypoint_names: tuple[str, ...]
    visible: Bool[np.ndarray, " keypoint"]
    bbox: tuple[float, float, float, float]
    category: str
    viewpoint: Viewpoint
    occluded: bool
    truncated: bool
    surface: Int[np.ndarray, "height width"]
    screen: Float[np.ndarray, "vertex 3"]

    @property
    def facing(self) -> str:
        """Say which edge of the picture the object faces, `left` or `right`."""
        return "right" if np.sin(np.radians(self.viewpoint.yaw)) >= 0 else "left"

    @property
    def size(self) -> tuple[int, int]:
        """Return the picture's `(width, height)`."""
        return self.image.shape[1], self.image.shape[0]


def mask_box(mask: Bool[np.ndarray, "height width"]) -> tuple[float, float, float, float]:
    """Return the pixel edges `(x1, y1, x2, y2)` around a mask; all zero where it is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return 0.0, 0.0, 0.0, 0.0
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)
