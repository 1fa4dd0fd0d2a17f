"""Foreground of an image, estimated from its features: the positions that do not look like its border."""

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from mambamatcher.model.geometry import grid_centres

LLOYD_STEPS = 5
BORDER_NEIGHBOURS = 5  # border positions compared with; a single one may be similar by chance


def find_foreground(features: Float[Tensor, "1 level channel h w"]) -> Bool[np.ndarray, "h w"]:
    """Return the largest connected region that differs from the image's border.

    The border rarely shows the object, and background resembles other background. Where the object reaches the border,
    parts of it may be missed; at least one position is always returned.
    """
    from scipy import ndimage  # its import would delay every match by a tenth of a second

    grid = (features.shape[3], features.shape[4])
    vectors = F.normalize(rearrange(features.float(), "1 level c h w -> level (h w) c"), dim=2)
    border = torch.ones(grid, dtype=torch.bool, device=features.device)
    border[1:-1, 1:-1] = False
    similarity = torch.einsum("lpc,lbc->pb", vectors, vectors[:, border.flatten()]) / len(vectors)
    nearest = similarity.topk(min(BORDER_NEIGHBOURS + 1, similarity.shape[1]), dim=1).values
    # a border position is most similar to itself, so the best one is left out for all positions
    difference = (1 - nearest[:, 1:].mean(dim=1)).reshape(grid).cpu().double().numpy()
    smooth = ndimage.gaussian_filter(difference, 0.7)
    region = _largest_region(smooth >= otsu_threshold(smooth))
    # receptive fields reach beyond their position, so the region is one position too wide
    inner = ndimage.binary_erosion(region, border_value=1)
    return inner if inner.any() else region


def otsu_threshold(values: Float[np.ndarray, "h w"]) -> float:
    """Return Otsu's threshold: the smallest value of the upper of the two best separated groups."""
    ordered = np.sort(values, axis=None)
    count = np.arange(1, len(ordered))
    below = np.cumsum(ordered)[:-1] / count
    above = (ordered.sum() - np.cumsum(ordered)[:-1]) / (len(ordered) - count)
    between = count * (len(ordered) - count) * (above - below) ** 2
    return float(ordered[1 + np.argmax(between)]) if len(ordered) > 1 else float(ordered[0])


def _largest_region(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    from scipy import ndimage

    labels, count = ndimage.label(mask, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    sizes[0] = 0
    return ndimage.binary_fill_holes(labels == np.argmax(sizes))


def spread_points(mask: Bool[np.ndarray, "h w"], count: int) -> Float[np.ndarray, "keypoint 2"]:
    """Choose up to `count` positions of a mask, in the unit frame, each in the middle of an equal share of it."""
    centres = grid_centres((mask.shape[0], mask.shape[1])).double().numpy()[mask.ravel()]
    count = min(count, len(centres))
    chosen = [int(np.argmin(np.linalg.norm(centres - centres.mean(axis=0), axis=1)))]
    while len(chosen) < count:  # the farthest from those before it
        chosen.append(int(np.argmax(_distances(centres, centres[chosen]).min(axis=1))))
    for _ in range(LLOYD_STEPS):
        share = _distances(centres, centres[chosen]).argmin(axis=1)
        middles = np.stack([centres[share == index].mean(axis=0) for index in range(count)])
        # each stays in its own share, so no two become the same
        chosen = [
            int(np.where(share == index, _distances(centres, middles[[index]])[:, 0], np.inf).argmin())
            for index in range(count)
        ]
    return centres[chosen]


def _distances(
    points: Float[np.ndarray, "point 2"], others: Float[np.ndarray, "other 2"]
) -> Float[np.ndarray, "point other"]:
    return np.linalg.norm(points[:, None] - others[None], axis=-1)
