"""Dense flow between two images: for every position in the target, the position of its counterpart in the source.

The kernel soft-argmax reads it from the transposed refined correlation map of a prepared pair, so it is finer than the
grid. A robust local fit then removes outliers. Positions that disagree with the fit, or with the match from the source
back to the target, get low trust.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from PIL import Image
from scipy import ndimage
from scipy.interpolate import CubicSpline
from torch import Tensor

from mambamatcher.matching.confidence import RETURN_DISTANCE, return_agreement
from mambamatcher.matching.matcher import PreparedPair
from mambamatcher.matching.scores import WholeMap
from mambamatcher.matching.transfer import dense_transfer
from mambamatcher.model.frames import axis_centres, grid_centres

REACH = 1.5  # grid cells: standard deviation of the neighbours' weights in the local fit
ITERATIONS = 3  # of the robust fit; each gives outliers less weight
TRUSTED = 0.5  # corresponds to a cycle error of about two cells of a 30x30 grid
PRIOR = 0.05  # weight of the global motion, used where neighbours have no weight
BAND_PIXELS = 2**21  # pixels warped at a time, to bound the memory
ROWS = 512  # grid positions fitted at a time, to bound the memory


@dataclass(frozen=True)
class Flow:
    """Dense flow on the grid of the target.

    Attributes:
        places: Position in the source, in its unit frame, of each position of the target's grid.
        trust: Reliability of each of them, from 0 to 1.
    """

    places: Float[np.ndarray, "ht wt 2"]
    trust: Float[np.ndarray, "ht wt"]

    def warp(self, image: Image.Image, size: tuple[int, int]) -> Image.Image:
        """Warp an image from the frame of the source into that of the target.

        Args:
            image: Image in the frame of the source, of mode "L", "RGB" or "RGBA".
            size: Width and height of the target image.
        """
        pixels = torch.from_numpy(np.array(image)).float()
        layers = pixels.reshape(*pixels.shape[:2], -1).permute(2, 0, 1)[None]
        bands = []
        for places in self._upsampled(size):
            warped = F.grid_sample(layers, places[None], mode="bilinear", padding_mode="border", align_corners=False)
            bands.append(warped[0].permute(1, 2, 0).round().clamp(0, 255).byte().numpy())
        joined = np.concatenate(bands)
        return Image.fromarray(joined if joined.shape[2] > 1 else joined[..., 0])

    def _upsampled(self, size: tuple[int, int]) -> Iterator[Float[Tensor, "rows width 2"]]:
        """Yield the flow at every pixel, in bands of rows."""
        down, across = (_spline(count, pixels) for count, pixels in zip(self.trust.shape, size[::-1], strict=True))
        for rows in down.split(max(1, BAND_PIXELS // size[0])):
            yield torch.einsum("rh,hwc,pw->rpc", rows, torch.from_numpy(self.places).float(), across)

    def matched(self, size: tuple[int, int]) -> Image.Image:
        """Return the mask of the matched pixels in the size of the target: white where matched, with soft edges."""
        trust = Image.fromarray(self.trust.astype(np.float32)).resize(size, Image.Resampling.BICUBIC)
        soft = np.clip((np.asarray(trust) - TRUSTED) / 0.1 + 0.5, 0, 1)
        return Image.fromarray(np.round(255 * soft).astype(np.uint8))


def dense_flow(pair: PreparedPair) -> Flow:
    """Compute the dense flow of a prepared pair, from the target to the source."""
    settings = replace(pair.transfer, readout="kernel_soft_argmax")  # argmax has only the resolution of the grid
    whole = WholeMap(pair.refined)
    grid = whole.target_grid
    matched = dense_transfer(whole.transposed().whole(), settings)
    agreement = return_agreement(whole, grid_centres(grid), matched, settings)
    raw = matched.reshape(*grid, 2).astype(np.float64)
    weight = agreement.reshape(grid).astype(np.float64)
    places = smooth_places(raw, weight)
    consistent = np.exp(-np.linalg.norm(raw - places, axis=-1) / RETURN_DISTANCE)
    return Flow(places, ndimage.gaussian_filter(np.minimum(weight, consistent), 0.7, mode="nearest"))


def smooth_places(
    places: Float[np.ndarray, "h w 2"], weight: Float[np.ndarray, "h w"], reach: float = REACH
) -> Float[np.ndarray, "h w 2"]:
    """Smooth a flow by a local affine fit, with iteratively reweighted least squares against outliers.

    A global affine map is fitted first, then an affine map of the residual around each position. So translation,
    rotation and scaling are preserved.

    Args:
        places: Matched position of each grid position, in the unit frame.
        weight: Weight of each match, from 0 to 1.
        reach: Standard deviation of the local weights, in grid cells.
    """
    grid = (places.shape[0], places.shape[1])
    centres = grid_centres(grid).astype(np.float64)
    wanted, weights = places.reshape(-1, 2), weight.ravel()
    sigma = reach * np.array([2.0 / grid[1], 2.0 / grid[0]])
    smooth = wanted
    for _ in range(ITERATIONS):
        smooth = _fit(centres, wanted, weights, sigma)
        misfit = np.linalg.norm(wanted - smooth, axis=1) / (RETURN_DISTANCE / 2)
        weights = weight.ravel() / (1 + misfit**2)
    return smooth.reshape(places.shape)


def _fit(
    centres: Float[np.ndarray, "position 2"],
    wanted: Float[np.ndarray, "position 2"],
    weights: Float[np.ndarray, " position"],
    sigma: Float[np.ndarray, "2"],
) -> Float[np.ndarray, "position 2"]:
    basis = np.column_stack([np.ones(len(centres)), centres])
    weighted = basis * weights[:, None]
    overall = basis @ np.linalg.solve(weighted.T @ basis + 1e-6 * np.eye(3), weighted.T @ wanted)
    residual = wanted - overall
    result = np.empty_like(wanted)
    for first in range(0, len(centres), ROWS):
        part = slice(first, first + ROWS)
        offset = (centres[None] - centres[part, None]) / sigma
        votes = np.exp(-0.5 * (offset**2).sum(axis=-1)) * weights
        local = np.concatenate([np.ones((*votes.shape, 1)), offset], axis=-1)
        normal = np.einsum("pq,pqa,pqb->pab", votes, local, local, optimize=True) + PRIOR * np.eye(3)
        right = np.einsum("pq,pqa,qc->pac", votes, local, residual, optimize=True)
        result[part] = overall[part] + np.linalg.solve(normal, right)[:, 0]
    return result


def _spline(count: int, pixels: int) -> Float[Tensor, "pixels count"]:
    """Return the matrix that interpolates values at `count` cell centres at every pixel by a cubic spline.

    A natural spline reproduces linear motion exactly, also when it extrapolates beyond the outermost centres.
    """
    centres, wanted = (axis_centres(number).astype(np.float64) for number in (count, pixels))
    return torch.from_numpy(CubicSpline(centres, np.eye(count), bc_type="natural")(wanted)).float()
