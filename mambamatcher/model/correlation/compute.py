"""The multi-level correlation map: cosine similarities of all source and target positions (Sec. 4.2)."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from mambamatcher.model.layers.execution import in_float32, may_use_cpu_kernels
from mambamatcher.ops.native.memory import empty_as

EPSILON = 1e-6  # an all-zero feature gets similarity 0 with everything instead of NaN
BLOCK_ELEMENTS = 2**22  # scores computed at a time: enough for a fast matrix product, few enough for the cache

Normalised = Float[Tensor, "batch level position channel"]


@in_float32
def correlation_map(
    source: Float[Tensor, "batch level channel hs ws"], target: Float[Tensor, "batch level channel ht wt"]
) -> Float[Tensor, "batch level hs ws ht wt"]:
    """Compute the cosine similarity of every source position with every target position, level by level.

    For inference on the CPU, the levels of a position are adjacent in memory, because the scan reads them together.

    Args:
        source: Aggregated features of the source images.
        target: Aggregated features of the target images, with the same levels and channels.

    Returns:
        Similarities between -1 and 1.

    Example:
        >>> features = torch.eye(4).reshape(1, 1, 4, 2, 2)  # four positions with orthogonal features
        >>> correlation_map(features, features).reshape(4, 4)
        tensor([[1., 0., 0., 0.],
                [0., 1., 0., 0.],
                [0., 0., 1., 0.],
                [0., 0., 0., 1.]])
    """
    grids = (*source.shape[-2:], *target.shape[-2:])
    normalised = _normalised(source), _normalised(target)
    correlate = _level_innermost if may_use_cpu_kernels(source) else _level_outermost
    return correlate(*normalised).unflatten(3, grids[2:]).unflatten(2, grids[:2])


@in_float32
def blended_correlation(
    features: Float[Tensor, "image level channel h w"],
    source: Int[Tensor, " batch"],
    target: Int[Tensor, " batch"],
    weights: Float[Tensor, "batch blend source_position"],
) -> Float[Tensor, "batch level blend 1 h w"]:
    """Compute weighted sums of rows of the correlation map without computing the map itself.

    Cosine similarity is linear in the normalised source feature, so the normalised features are blended instead.

    Args:
        features: Aggregated features of all images, each image once.
        source: Index of the source image of each pair.
        target: Index of the target image of each pair.
        weights: Weight of every source position in each blend.

    Returns:
        Similarities of each blend with all target positions. The blends take the place of the source rows.
    """
    normalised = _normalised(features)
    blends = weights[:, None] @ normalised[source]
    return _level_outermost(blends, normalised[target]).unflatten(3, features.shape[-2:]).unsqueeze(3)


def _normalised(features: Float[Tensor, "batch level channel h w"]) -> Normalised:
    return F.normalize(rearrange(features, "b level c h w -> b level (h w) c"), dim=3, eps=EPSILON)


def _level_outermost(
    source: Float[Tensor, "batch level source_position channel"],
    target: Float[Tensor, "batch level target_position channel"],
) -> Float[Tensor, "batch level source_position target_position"]:
    return source @ target.transpose(2, 3)


def _level_innermost(
    source: Float[Tensor, "batch level source_position channel"],
    target: Float[Tensor, "batch level target_position channel"],
) -> Float[Tensor, "batch level source_position target_position"]:
    """Compute a few source positions at a time and transpose the scores while they are in the cache."""
    batch, levels, rows, _ = source.shape
    columns = target.shape[2]
    result = empty_as(torch.empty(batch, rows, columns, levels, device="meta"))
    at_once = max(1, BLOCK_ELEMENTS // (levels * columns))
    for index in range(batch):
        for first in range(0, rows, at_once):
            part = slice(first, first + at_once)
            products = source[index, :, part] @ target[index].transpose(1, 2)
            result[index, part] = rearrange(products, "level row column -> row column level")
    return rearrange(result, "b row column level -> b level row column")
