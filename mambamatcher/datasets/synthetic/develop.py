"""From linear light to an 8-bit picture: edges, exposure, tint, contrast and grain."""

from typing import NamedTuple

import numpy as np

from mambamatcher.datasets.synthetic.compiled import compiled


class Exposure(NamedTuple):
    """How the camera renders light: gain for each channel, contrast around mid grey and grain in grey levels."""

    gain: tuple[float, float, float] = (1.0, 1.0, 1.0)
    contrast: float = 1.0
    grain: float = 0.0


@compiled
def smooth_edges(picture: np.ndarray, surface: np.ndarray, labels: np.ndarray) -> None:
    """Average each pixel at the border of a part with its neighbours, in place; leave all others sharp.

    `surface` is the triangle of each pixel (negative for none) and `labels` the part of each triangle. Neighbours above
    and to the left may be smooth already; that does not show, and a copy would cost more than the rest.
    """
    height, width = surface.shape
    for row in range(1, height - 1):
        for column in range(1, width - 1):
            here, right, left = surface[row, column], surface[row, column + 1], surface[row, column - 1]
            above, below = surface[row - 1, column], surface[row + 1, column]
            if here == right and here == left and here == above and here == below:
                continue
            part = _label(here, labels)
            if (
                part == _label(right, labels)
                and part == _label(left, labels)
                and part == _label(above, labels)
                and part == _label(below, labels)
            ):
                continue
            for channel in range(3):
                around = picture[row, column - 1, channel] + picture[row, column + 1, channel]
                around += picture[row - 1, column, channel] + picture[row + 1, column, channel]
                picture[row, column, channel] = (picture[row, column, channel] * 4 + around) / 8


@compiled
def _label(triangle: int, labels: np.ndarray) -> int:
    return labels[triangle] if triangle >= 0 else triangle


@compiled
def shrink(picture: np.ndarray, supersample: int) -> np.ndarray:
    """Average blocks of samples; very bright ones count as 1.5, or highlights would have jagged edges."""
    height, width = picture.shape[0] // supersample, picture.shape[1] // supersample
    small = np.zeros((height, width, 3), np.float32)
    share = np.float32(1 / (supersample * supersample))
    for row in range(height * supersample):
        for column in range(width * supersample):
            for channel in range(3):
                light = min(picture[row, column, channel], np.float32(1.5))
                small[row // supersample, column // supersample, channel] += light * share
    return small


@compiled
def develop(picture: np.ndarray, exposure: Exposure, seed: int) -> np.ndarray:
    """Expose and quantise a picture."""
    height, width, _ = picture.shape
    image = np.empty((height, width, 3), np.uint8)
    contrast = np.float32(exposure.contrast * 255)
    middle = np.float32(0.5 * 255 * (1 - exposure.contrast) + 0.5)
    scale = np.float32(exposure.grain / 16777216.0)
    state = np.uint64(seed * 2 + 1)
    for row in range(height):
        for column in range(width):
            # A 64-bit linear congruential generator: its high bits are good enough for grain.
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            grain = middle + scale * (np.float32(state >> np.uint64(40)) - np.float32(8388608))
            for channel in range(3):
                light = picture[row, column, channel] * np.float32(exposure.gain[channel])
                level = np.sqrt(max(light, np.float32(0))) * contrast + grain
                image[row, column, channel] = np.uint8(min(max(level, np.float32(0)), np.float32(255)))
    return image
