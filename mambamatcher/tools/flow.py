"""Dense flow between two images: for every position in the target, the position of its counterpart in the source.

The kernel soft-argmax reads it from the transposed refined correlation map of a prepared pair, so it is finer than the
grid. A robust local fit then removes outliers. Positions that disagree with the fit, or with the match from the source
back to the target, get low trust.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Float32, UInt8
from PIL import Image

from mambamatcher.matching.confidence import RETURN_DISTANCE, return_agreement
from mambamatcher.matching.matcher import PreparedPair
from mambamatcher.matching.scores import WholeMap
from mambamatcher.matching.transfer import dense_transfer
from mambamatcher.model.frames import axis_centres, grid_centres

REACH = 1.5  # grid cells: standard deviation of the neighbours' weights in the local fit
ITERATIONS = 3  # of the robust fit; each gives outliers less weight
TRUSTED = 0.5  # corresponds to a cycle error of about two cells of a 30x30 grid
PRIOR = 0.05  # weight of the global motion, used where neighbours have no weight
BAND_PIXELS = 2**19  # pixels warped at a time, to bound the memory
ROWS = 512  # grid positions fitted at a time, to bound the memory
SOFTENED = 0.7  # grid cells: standard deviation of the Gaussian that smooths the trust


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
        pixels = np.array(image)
        layers = pixels.reshape(*pixels.shape[:2], -1)
        warped = [np.round(_sample(layers, places)).astype(np.uint8) for places in self._upsampled(size)]
        return Image.fromarray(np.concatenate(warped).reshape(size[1], size[0], *pixels.shape[2:]))

    def _upsampled(self, size: tuple[int, int]) -> Iterator[Float32[np.ndarray, "rows width 2"]]:
        """Yield the flow at every pixel, in bands of rows."""
        down, across = (_spline(count, pixels) for count, pixels in zip(self.trust.shape, size[::-1], strict=True))
        places = self.places.astype(np.float32)
        step = max(1, BAND_PIXELS // size[0])
        for first in range(0, size[1], step):
            yield np.einsum("rh,hwc,pw->rpc", down[first : first + step], places, across, optimize=True)

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
    return Flow(places, _softened(np.minimum(weight, consistent)))


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


def _softened(values: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "h w"]:
    """Convolve with a Gaussian; beyond the border the outermost values continue."""
    reach = 3  # the weights beyond four standard deviations are negligible
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / SOFTENED) ** 2)
    for axis in (0, 1):
        padded = np.pad(values, [(reach, reach) if each == axis else (0, 0) for each in (0, 1)], mode="edge")
        values = np.lib.stride_tricks.sliding_window_view(padded, len(weights), axis) @ (weights / weights.sum())
    return values


def _sample(
    layers: UInt8[np.ndarray, "height width layer"], places: Float32[np.ndarray, "rows columns 2"]
) -> Float32[np.ndarray, "rows columns layer"]:
    """Interpolate an image linearly at places in the unit frame; outside it the nearest edge counts."""
    height, width = layers.shape[:2]
    limits = np.array([width - 1, height - 1], np.float32)
    place = np.clip(((places + 1) * (limits + 1) - 1) / 2, 0, limits)
    left, top = np.moveaxis(place.astype(np.int64), -1, 0)
    right, bottom = np.minimum(left + 1, width - 1), np.minimum(top + 1, height - 1)
    across, down = np.moveaxis(place - np.floor(place), -1, 0)[..., None]
    upper = layers[top, left] * (1 - across) + layers[top, right] * across
    lower = layers[bottom, left] * (1 - across) + layers[bottom, right] * across
    return upper * (1 - down) + lower * down


def _spline(count: int, pixels: int) -> Float32[np.ndarray, "pixels count"]:
    """Return the matrix that interpolates values at `count` cell centres at every pixel by a cubic spline.

    A natural spline reproduces linear motion exactly, also when it extrapolates beyond the outermost centres.
    """
    # in units of the cells: the value at i + t is a line from value i to i + 1, bent by the curvatures at both
    place = (axis_centres(pixels).astype(np.float64) + 1) / 2 * count - 0.5
    cell = np.clip(np.floor(place).astype(np.int64), 0, count - 2)
    t, values = (place - cell)[:, None], np.eye(count)
    bending = (4 * values + np.eye(count, k=1) + np.eye(count, k=-1))[1:-1, 1:-1]
    curvature = np.zeros((count, count))  # a row per centre, zero at both ends
    curvature[1:-1] = np.linalg.solve(bending, 6 * np.diff(values, n=2, axis=0))
    line = (1 - t) * values[cell] + t * values[cell + 1]
    bent = ((1 - t) ** 3 - (1 - t)) * curvature[cell] + (t**3 - t) * curvature[cell + 1]
    return (line + bent / 6).astype(np.float32)
