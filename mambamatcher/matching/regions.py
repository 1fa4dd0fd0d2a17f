"""The few operations on masks of a feature grid that the foreground needs; SciPy is too large for them."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

Mask = Bool[np.ndarray, "h w"]


def smooth(values: Float[np.ndarray, "h w"], sigma: float) -> Float[np.ndarray, "h w"]:
    """Filter by a Gaussian up to four standard deviations; beyond the border the values are mirrored."""
    reach = int(4 * sigma + 0.5)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    for axis in (0, 1):
        padded = np.pad(values, [(reach, reach) if each == axis else (0, 0) for each in (0, 1)], mode="symmetric")
        values = np.lib.stride_tricks.sliding_window_view(padded, len(kernel), axis=axis) @ (kernel / kernel.sum())
    return values


def largest_region(mask: Mask) -> Mask:
    """Return the largest region of positions connected by sides or corners, with its holes filled."""
    numbered = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), mask.size + 1)

    def take_least_of_neighbours(labels: np.ndarray) -> np.ndarray:
        padded = np.pad(labels, 1, constant_values=mask.size + 1)
        least = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).min(axis=(2, 3))
        return np.where(mask, least, labels)

    labels = _until_stable(take_least_of_neighbours, numbered)
    sizes = np.bincount(labels.ravel(), minlength=mask.size + 2)
    sizes[mask.size + 1] = 0
    return fill_holes(labels == np.argmax(sizes))


def fill_holes(mask: Mask) -> Mask:
    """Add the positions that no path over sides connects with the border."""
    free = np.pad(~mask, 1, constant_values=True)
    outside = np.zeros_like(free)
    outside[0] = outside[-1] = outside[:, 0] = outside[:, -1] = True
    return ~_until_stable(lambda reached: free & ~erode(~reached), outside)[1:-1, 1:-1]


def erode(mask: Mask) -> Mask:
    """Keep the positions whose four neighbours are in the mask; beyond the border all are."""
    padded = np.pad(mask, 1, constant_values=True)
    return mask & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]


def _until_stable(step: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
    while not np.array_equal(value, following := step(value)):
        value = following
    return value
