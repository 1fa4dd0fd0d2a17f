"""Dense flow between two pictures: for every place of the target, where in the source its counterpart lies.

Read from the refined map of a prepared pair, transposed, by the kernel soft-argmax: so it is finer than the grid. Wrong
matches here and there are then outvoted by their neighbours, and what still does not agree, there and back, is not
trusted.
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

from mambamatcher.matching.confidence import RETURN_DISTANCE, return_agreement, transposed
from mambamatcher.matching.matcher import PreparedPair
from mambamatcher.model.geometry import axis_centres, grid_centres
from mambamatcher.model.transfer import dense_transfer

REACH = 1.5  # cells: how far neighbours vote
ROUNDS = 3  # of voting; each gives outliers less weight
TRUSTED = 0.5  # about two cells of a 30x30 grid between a place and where it comes back to
PRIOR = 0.05  # votes for the overall motion, for places whose neighbours say nothing
BAND_PIXELS = 2**21  # warped at a time
ROWS = 512  # grid positions smoothed at a time


@dataclass(frozen=True)
class Flow:
    """Where each position of the target's grid lies in the source (unit frame), and how far that can be trusted."""

    places: Float[np.ndarray, "ht wt 2"]
    trust: Float[np.ndarray, "ht wt"]

    def warp(self, picture: Image.Image, size: tuple[int, int]) -> Image.Image:
        """Bring a picture of the source's frame, of any mode, into the target's frame and size."""
        pixels = torch.from_numpy(np.array(picture)).float()
        layers = pixels.reshape(*pixels.shape[:2], -1).permute(2, 0, 1)[None]
        bands = []
        for places in self._upsampled(size):
            warped = F.grid_sample(layers, places[None], mode="bilinear", padding_mode="border", align_corners=False)
            bands.append(warped[0].permute(1, 2, 0).round().clamp(0, 255).byte().numpy())
        joined = np.concatenate(bands)
        return Image.fromarray(joined if joined.shape[2] > 1 else joined[..., 0])

    def _upsampled(self, size: tuple[int, int]) -> Iterator[Float[Tensor, "rows width 2"]]:
        """Yield the flow at every pixel, some rows at a time."""
        down, across = (_spline(count, pixels) for count, pixels in zip(self.trust.shape, size[::-1], strict=True))
        for rows in down.split(max(1, BAND_PIXELS // size[0])):
            yield torch.einsum("rh,hwc,pw->rpc", rows, torch.from_numpy(self.places).float(), across)

    def matched(self, size: tuple[int, int]) -> Image.Image:
        """Return the honest mask in the target's size: white where there is a match, soft at its edge."""
        trust = Image.fromarray(self.trust.astype(np.float32)).resize(size, Image.Resampling.BICUBIC)
        soft = np.clip((np.asarray(trust) - TRUSTED) / 0.1 + 0.5, 0, 1)
        return Image.fromarray(np.round(255 * soft).astype(np.uint8))


def dense_flow(pair: PreparedPair) -> Flow:
    """Compute the flow of a prepared pair."""
    settings = replace(pair.transfer, readout="kernel_soft_argmax")  # an argmax would be no finer than the grid
    backward = transposed(pair.refined)
    grid = (backward.shape[1], backward.shape[2])
    with torch.inference_mode():
        matched = dense_transfer(backward, settings)[0]
        agreement = return_agreement(backward, grid_centres(grid, backward.device), matched, settings)
    raw = matched.unflatten(0, grid).double().cpu().numpy()
    weight = agreement.unflatten(0, grid).double().cpu().numpy()
    places = smooth_places(raw, weight)
    consistent = np.exp(-np.linalg.norm(raw - places, axis=-1) / RETURN_DISTANCE)
    return Flow(places, ndimage.gaussian_filter(np.minimum(weight, consistent), 0.7, mode="nearest"))


def smooth_places(
    places: Float[np.ndarray, "h w 2"], weight: Float[np.ndarray, "h w"], reach: float = REACH
) -> Float[np.ndarray, "h w 2"]:
    """Fit the motion around every position, by weighted least squares that lose patience with outliers.

    The motion of the whole picture is one affine map, and what is left of it is affine around each position, so
    neither shifts nor turns nor scalings are flattened.
    """
    grid = (places.shape[0], places.shape[1])
    centres = grid_centres(grid).double().numpy()
    wanted, weights = places.reshape(-1, 2), weight.ravel()
    sigma = reach * np.array([2.0 / grid[1], 2.0 / grid[0]])
    smooth = wanted
    for _ in range(ROUNDS):
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
    left = wanted - overall
    result = np.empty_like(wanted)
    for first in range(0, len(centres), ROWS):
        part = slice(first, first + ROWS)
        offset = (centres[None] - centres[part, None]) / sigma
        votes = np.exp(-0.5 * (offset**2).sum(axis=-1)) * weights
        local = np.concatenate([np.ones((*votes.shape, 1)), offset], axis=-1)
        normal = np.einsum("pq,pqa,pqb->pab", votes, local, local, optimize=True) + PRIOR * np.eye(3)
        right = np.einsum("pq,pqa,qc->pac", votes, local, left, optimize=True)
        result[part] = overall[part] + np.linalg.solve(normal, right)[:, 0]
    return result


def _spline(count: int, pixels: int) -> Float[Tensor, "pixels count"]:
    """Return the matrix that takes values at `count` cell centres to those of a cubic spline at every pixel.

    A natural spline keeps straight motion straight, beyond the outermost centres too.
    """
    centres, wanted = (axis_centres(number).double().numpy() for number in (count, pixels))
    return torch.from_numpy(CubicSpline(centres, np.eye(count), bc_type="natural")(wanted)).float()
