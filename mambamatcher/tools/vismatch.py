"""A `Matcher` in the call shape of vismatch (formerly image-matching-models): two image tensors in, a dictionary out.

    from mambamatcher.tools.vismatch import VismatchMatcher
    result = VismatchMatcher()(image0, image1)
    result["matched_kpts0"], result["matched_kpts1"]

vismatch itself is not needed. Its names end in 0 and 1 where ours say source and target.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.io.images import load_image, to_bytes
from mambamatcher.matching.confidence import EVIDENCE
from mambamatcher.matching.matcher import LoadedImage, Matcher
from mambamatcher.model.frames import grid_centres, unit_to_pixels

MUTUAL = 0.5  # forward-backward agreement from which a match counts as mutual

Points = Float[np.ndarray, "point 2"]


class VismatchMatcher(nn.Module):
    """Matches the grid positions of image 0 that have a mutual counterpart in image 1.

    vismatch also fits a homography by RANSAC. Two different objects are seldom related by one, so here `H` is None and
    every match counts as an inlier.

    Args:
        device: Where the model computes.
        matcher: The matcher; by default the shipped model's.
        max_num_keypoints: The largest number of matches returned, most confident first.
    """

    def __init__(
        self,
        device: str = "cpu",
        matcher: Matcher | None = None,
        *,
        max_num_keypoints: int = 2048,
    ) -> None:
        super().__init__()
        self.matcher = matcher or Matcher.from_pretrained(runtime="torch")
        self.model = self.matcher.model.to(device)
        self.device = device
        self.max_num_keypoints = max_num_keypoints

    @property
    def name(self) -> str:
        """The name to show."""
        return "mambamatcher"

    @staticmethod
    def load_image(path: str | Path, resize: int | tuple[int, int] | None = None) -> Float[Tensor, "3 height width"]:
        """Read an image, resized to a square of that side or to that `(height, width)`."""
        image = load_image(path)
        if resize is not None:
            height, width = (resize, resize) if isinstance(resize, int) else resize
            image = image.resize((width, height))
        return torch.from_numpy(to_bytes(image)).float() / 255.0

    def forward(self, img0: Tensor | str | Path, img1: Tensor | str | Path) -> dict[str, Any]:
        """Match two images `(3, height, width)` with values from 0 to 1; points are in their pixels, (x, y)."""
        source, target = self._read(img0), self._read(img1)
        (points0, described0), (points1, described1) = self._positions(source), self._positions(target)
        result = self.matcher.match(source, target, points0)
        agreement = result.evidence[:, EVIDENCE.index("agreement")]
        kept = np.flatnonzero(result.matched & (agreement >= MUTUAL))
        kept = kept[np.argsort(-result.confidence[kept], kind="stable")][: self.max_num_keypoints]
        matched0, matched1 = points0[kept], result.points[kept].astype(np.float32)
        return {
            "num_inliers": len(kept),
            "H": None,
            "all_kpts0": points0,
            "all_kpts1": points1,
            "all_desc0": described0,
            "all_desc1": described1,
            "matched_kpts0": matched0,
            "matched_kpts1": matched1,
            "inlier_kpts0": matched0,
            "inlier_kpts1": matched1,
        }

    def extract(self, img: Tensor | str | Path) -> dict[str, Any]:
        """Return the positions of one image and their descriptors."""
        points, described = self._positions(self._read(img))
        return {"all_kpts0": points, "all_desc0": described}

    def _read(self, img: Tensor | str | Path) -> LoadedImage:
        if isinstance(img, Tensor) and img.ndim == 4 and len(img) == 1:
            img = img[0]
        return self.matcher.read(img)

    def _positions(self, loaded: LoadedImage) -> tuple[Points, Float[np.ndarray, "point channel"]]:
        features = self.matcher.encode(loaded)
        points = unit_to_pixels(grid_centres((features.shape[2], features.shape[3])), loaded.image.size)
        described = rearrange(features, "level c h w -> (h w) (level c)")
        return points, described / np.linalg.norm(described, axis=1, keepdims=True).clip(min=1e-12)
