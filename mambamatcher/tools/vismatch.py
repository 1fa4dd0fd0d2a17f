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
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mambamatcher.io.images import load_image, to_bytes
from mambamatcher.matching.matcher import LoadedImage, Matcher
from mambamatcher.model.geometry import grid_centres, unit_to_pixels

MUTUAL = 0.5  # forward-backward agreement from which a match counts as mutual

Points = Float[np.ndarray, "point 2"]


class VismatchMatcher(nn.Module):
    """Matches the grid positions of image 0 that have a mutual counterpart in image 1.

    The keyword arguments are vismatch's. Its threshold of 3 pixels suits two photos of one scene; two different objects
    are seldom related by a homography, so use `matched_kpts0` and `matched_kpts1`, not the inliers.
    """

    def __init__(
        self,
        device: str = "cpu",
        matcher: Matcher | None = None,
        *,
        max_num_keypoints: int = 2048,
        ransac_iters: int = 2000,
        ransac_reproj_thresh: float = 3.0,
    ) -> None:
        super().__init__()
        self.matcher = matcher or Matcher.from_pretrained()
        self.model = self.matcher.model.to(device)
        self.device = device
        self.max_num_keypoints = max_num_keypoints
        self.ransac_iters = ransac_iters
        self.ransac_reproj_thresh = ransac_reproj_thresh
        self.skip_ransac = False

    @property
    def name(self) -> str:
        """The name to show."""
        return "mambamatcher"

    @staticmethod
    def load_image(path: str | Path, resize: int | tuple[int, int] | None = None) -> Float[Tensor, "3 height width"]:
        """Read a picture, resized to a square of that side or to that `(height, width)`."""
        picture = load_image(path)
        if resize is not None:
            height, width = (resize, resize) if isinstance(resize, int) else resize
            picture = picture.resize((width, height))
        return to_bytes(picture).float() / 255.0

    def forward(self, img0: Tensor | str | Path, img1: Tensor | str | Path) -> dict[str, Any]:
        """Match two images `(3, height, width)` with values from 0 to 1; points are in their pixels, (x, y)."""
        source, target = self._read(img0), self._read(img1)
        (points0, described0), (points1, described1) = self._positions(source), self._positions(target)
        result = self.matcher.match(source, target, points0)
        agreement = result.evidence[:, 2]
        kept = np.flatnonzero(result.matched & (agreement >= MUTUAL))
        kept = kept[np.argsort(-result.confidence[kept], kind="stable")][: self.max_num_keypoints]
        matched0, matched1 = points0[kept], result.points[kept].astype(np.float32)
        homography, inliers = None, np.zeros(len(kept), dtype=bool)
        if not self.skip_ransac:
            homography, inliers = fit_homography(matched0, matched1, self.ransac_reproj_thresh, self.ransac_iters)
        return {
            "num_inliers": int(inliers.sum()),
            "H": homography,
            "all_kpts0": points0,
            "all_kpts1": points1,
            "all_desc0": described0,
            "all_desc1": described1,
            "matched_kpts0": matched0,
            "matched_kpts1": matched1,
            "inlier_kpts0": matched0[inliers],
            "inlier_kpts1": matched1[inliers],
        }

    def extract(self, img: Tensor | str | Path) -> dict[str, Any]:
        """Return the positions of one image and their descriptors."""
        points, described = self._positions(self._read(img))
        return {"all_kpts0": points, "all_desc0": described}

    def _read(self, img: Tensor | str | Path) -> LoadedImage:
        if isinstance(img, Tensor) and img.ndim == 4 and len(img) == 1:
            img = img[0]
        return self.matcher.read(img)

    def _positions(self, picture: LoadedImage) -> tuple[Points, Float[np.ndarray, "point channel"]]:
        features = self.matcher.encode(picture)
        points = unit_to_pixels(grid_centres((features.shape[3], features.shape[4])), picture.image.size)
        described = rearrange(features, "1 level c h w -> (h w) (level c)")
        return points.numpy(), torch.nn.functional.normalize(described.float(), dim=1).cpu().numpy()


def fit_homography(
    points0: Points, points1: Points, threshold: float, iterations: int
) -> tuple[Float[np.ndarray, "3 3"] | None, Bool[np.ndarray, " point"]]:
    """Fit a homography by random samples of four; without one that holds for four points there is None."""
    nobody = np.zeros(len(points0), dtype=bool)
    if len(points0) < 4:
        return None, nobody
    random = np.random.default_rng(0)  # the same pictures always give the same answer
    samples = random.random((iterations, len(points0))).argpartition(3, axis=1)[:, :4]
    candidates = _homographies(points0[samples], points1[samples])
    counts = (_misfit(candidates, points0, points1) <= threshold).sum(axis=1)
    inliers = (_misfit(candidates[[counts.argmax()]], points0, points1) <= threshold)[0]
    if inliers.sum() < 4:
        return None, nobody
    refined = _homographies(points0[None, inliers], points1[None, inliers])
    inliers = (_misfit(refined, points0, points1) <= threshold)[0]
    return (refined[0], inliers) if inliers.sum() >= 4 else (None, nobody)


def _homographies(
    points0: Float[np.ndarray, "sample point 2"], points1: Float[np.ndarray, "sample point 2"]
) -> Float[np.ndarray, "sample 3 3"]:
    """Solve the direct linear transform of each sample, in coordinates of size about one."""
    scale = max(np.abs(points0).max(), np.abs(points1).max(), 1.0)
    x, y = np.moveaxis(points0.astype(np.float64) / scale, -1, 0)
    u, v = np.moveaxis(points1.astype(np.float64) / scale, -1, 0)
    zero, one = np.zeros_like(x), np.ones_like(x)
    first = np.stack([x, y, one, zero, zero, zero, -u * x, -u * y, -u], axis=-1)
    second = np.stack([zero, zero, zero, x, y, one, -v * x, -v * y, -v], axis=-1)
    # the null space of the equations, as the least eigenvector of their square
    rows = np.concatenate([first, second], axis=1)
    solved = np.linalg.eigh(np.swapaxes(rows, 1, 2) @ rows)[1][..., 0].reshape(-1, 3, 3)
    back = np.diag([scale, scale, 1.0])
    found = back @ solved @ np.linalg.inv(back)
    last = found[:, 2:, 2:]
    return found / np.where(np.abs(last) < 1e-12, 1.0, last)


def _misfit(
    homographies: Float[np.ndarray, "sample 3 3"], points0: Points, points1: Points
) -> Float[np.ndarray, "sample point"]:
    projected = np.column_stack([points0, np.ones(len(points0))]) @ np.swapaxes(homographies, 1, 2)
    depth = projected[..., 2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        places = projected[..., :2] / depth
    distance = np.linalg.norm(places - points1, axis=-1)
    return np.where(np.isfinite(distance), distance, np.inf)
