"""Foreground of an image, estimated from its features: the positions that do not look like its border."""

import numpy as np
from jaxtyping import Bool, Float

from mambamatcher.matching.regions import erode, largest_region, smooth
from mambamatcher.matching.runtime import Encoded
from mambamatcher.matching.transfer import distances
from mambamatcher.model.frames import grid_centres

LLOYD_STEPS = 5
BORDER_NEIGHBOURS = 5  # border positions compared with; a single one may be similar by chance


def find_foreground(features: Encoded) -> Bool[np.ndarray, "h w"]:
    """Return the largest connected region that differs from the image's border.

    The border rarely shows the object, and background resembles other background. Where the object reaches the border,
    parts of it may be missed; at least one position is always returned.
    """
    levels, channels, height, width = features.shape
    vectors = features.reshape(levels, channels, -1)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
    border = np.ones((height, width), dtype=bool)
    border[1:-1, 1:-1] = False
    joined = vectors.reshape(levels * channels, -1)
    similarity = joined.T @ joined[:, border.ravel()] / levels
    nearest = -np.sort(-similarity, axis=1)[:, : BORDER_NEIGHBOURS + 1]
    # a border position is most similar to itself, so the best one is left out for all positions
    difference = smooth((1 - nearest[:, 1:].mean(axis=1)).reshape(height, width).astype(np.float64), 0.7)
    region = largest_region(difference >= otsu_threshold(difference))
    # receptive fields reach beyond their position, so the region is one position too wide
    inner = erode(region)
    return inner if inner.any() else region


def otsu_threshold(values: Float[np.ndarray, "h w"]) -> float:
    """Return Otsu's threshold: the smallest value of the upper of the two best separated groups."""
    ordered = np.sort(values, axis=None)
    count = np.arange(1, len(ordered))
    below = np.cumsum(ordered)[:-1] / count
    above = (ordered.sum() - np.cumsum(ordered)[:-1]) / (len(ordered) - count)
    between = count * (len(ordered) - count) * (above - below) ** 2
    return float(ordered[1 + np.argmax(between)]) if len(ordered) > 1 else float(ordered[0])


def spread_points(mask: Bool[np.ndarray, "h w"], count: int) -> Float[np.ndarray, "keypoint 2"]:
    """Choose up to `count` positions of a mask, in the unit frame, each in the middle of an equal share of it."""
    centres = grid_centres((mask.shape[0], mask.shape[1])).astype(np.float64)[mask.ravel()]
    count = min(count, len(centres))
    chosen = [int(np.argmin(np.linalg.norm(centres - centres.mean(axis=0), axis=1)))]
    while len(chosen) < count:  # the farthest from those before it
        chosen.append(int(np.argmax(distances(centres, centres[chosen]).min(axis=1))))
    for _ in range(LLOYD_STEPS):
        share = distances(centres, centres[chosen]).argmin(axis=1)
        middles = np.stack([centres[share == index].mean(axis=0) for index in range(count)])
        # each stays in its own share, so no two become the same
        chosen = [
            int(np.where(share == index, distances(centres, middles[[index]])[:, 0], np.inf).argmin())
            for index in range(count)
        ]
    return centres[chosen]
