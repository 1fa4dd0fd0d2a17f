"""Linear interpolation of a correlation map to a finer grid in both images."""

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor


def upsample4d(
    x: Float[Tensor, "batch hs ws ht wt"], factor: int
) -> Float[Tensor, "batch refined_hs refined_ws refined_ht refined_wt"]:
    """Interpolate linearly along all four axes; every axis gets `factor` times as many positions.

    Positions are the centres of equal cells of the image, as everywhere in this package. The public code of
    TransforMatcher and CHM aligns the first and the last position with the border instead, and so do its points.

    Args:
        x: Scores.
        factor: Positions after for one before, on every axis.

    Example:
        >>> import torch
        >>> upsample4d(torch.tensor([0.0, 4.0]).reshape(1, 1, 2, 1, 1), 2)[0, 0, :, 0, 0]
        tensor([0., 1., 3., 4.])
    """
    if factor == 1:
        return x
    _, hs, ws, ht, wt = x.shape

    def finer(maps: Float[Tensor, "batch position h w"], h: int, w: int) -> Float[Tensor, "batch position _ _"]:
        return F.interpolate(maps, (factor * h, factor * w), mode="bilinear", align_corners=False)

    x = finer(rearrange(x, "b hs ws ht wt -> b (hs ws) ht wt"), ht, wt)
    x = finer(rearrange(x, "b (hs ws) ht wt -> b (ht wt) hs ws", hs=hs), hs, ws)
    return rearrange(x, "b (ht wt) hs ws -> b hs ws ht wt", ht=factor * ht)
