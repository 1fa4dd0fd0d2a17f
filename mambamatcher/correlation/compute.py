"""The multi-level correlation map: cosine similarity of every source with every target position (Sec. 4.2)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mambamatcher.layers.precision import in_float32

EPSILON = 1e-6  # a position without any feature (all zeros) is similar to nothing, rather than undefined


@in_float32
def correlation_map(
    source: Float[Tensor, "batch level channel hs ws"], target: Float[Tensor, "batch level channel ht wt"]
) -> Float[Tensor, "batch level hs ws ht wt"]:
    """Correlate each level of the source with the same level of the target."""
    grids = (*source.shape[-2:], *target.shape[-2:])
    source = F.normalize(source.flatten(3), dim=2, eps=EPSILON)
    target = F.normalize(target.flatten(3), dim=2, eps=EPSILON)
    return (source.transpose(2, 3) @ target).unflatten(3, grids[2:]).unflatten(2, grids[:2])
