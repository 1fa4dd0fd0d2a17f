"""The multi-level correlation map: cosine similarity of every source with every target position (Sec. 4.2)."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from mambamatcher.model.layers.inference import may_use_cpu_kernels
from mambamatcher.model.layers.precision import in_float32
from mambamatcher.ops.native.memory import empty_as

EPSILON = 1e-6  # a position without any feature (all zeros) is similar to nothing, rather than undefined
BLOCK_ELEMENTS = 2**22  # of products at a time: large enough for full speed, small enough to stay in the cache

Directions = Float[Tensor, "batch level position channel"]


@in_float32
def correlation_map(
    source: Float[Tensor, "batch level channel hs ws"], target: Float[Tensor, "batch level channel ht wt"]
) -> Float[Tensor, "batch level hs ws ht wt"]:
    """Correlate each level of the source with the same level of the target.

    For inference on the CPU the levels of a position lie side by side in memory, which is how scans read them.
    """
    grids = (*source.shape[-2:], *target.shape[-2:])
    directions = _directions(source), _directions(target)
    correlate = _level_innermost if may_use_cpu_kernels(source) else _plain
    return correlate(*directions).unflatten(3, grids[2:]).unflatten(2, grids[:2])


@in_float32
def blended_correlation(
    features: Float[Tensor, "image level channel h w"],
    source: Int[Tensor, " batch"],
    target: Int[Tensor, " batch"],
    weights: Float[Tensor, "batch blend source_position"],
) -> Float[Tensor, "batch level blend 1 h w"]:
    """Blend source positions of the maps of some pairs of images, without making the maps: direction by direction."""
    directions = _directions(features)
    blends = weights[:, None] @ directions[source]
    return _plain(blends, directions[target]).unflatten(3, features.shape[-2:]).unsqueeze(3)


def _directions(features: Float[Tensor, "batch level channel h w"]) -> Directions:
    return F.normalize(rearrange(features, "b level c h w -> b level (h w) c"), dim=3, eps=EPSILON)


def _plain(
    source: Float[Tensor, "batch level source_position channel"],
    target: Float[Tensor, "batch level target_position channel"],
) -> Float[Tensor, "batch level source_position target_position"]:
    return source @ target.transpose(2, 3)


def _level_innermost(
    source: Float[Tensor, "batch level source_position channel"],
    target: Float[Tensor, "batch level target_position channel"],
) -> Float[Tensor, "batch level source_position target_position"]:
    """Multiply some source positions at a time, and spread the products while they are in the cache."""
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
