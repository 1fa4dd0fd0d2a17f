"""Dense 4D convolution, built from 2D convolutions over slices of the first two dimensions."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

SLICE_ELEMENTS = 2**23  # of the widest intermediate: 32 MB in float32


def conv4d(
    x: Float[Tensor, "batch before hs ws ht wt"],
    weight: Float[Tensor, "after before k k k k"],
    bias: Float[Tensor, " after"] | None = None,
) -> Float[Tensor, "batch after hs ws ht wt"]:
    """Convolve all four dimensions with an odd kernel, zero padding and stride 1.

    A 2D convolution over the target dimensions computes, for each of the k·k source offsets, that offset's whole
    contribution; these are then added where the offset puts them. Source rows are taken a few at a time, so memory
    beyond input and output stays bounded however large the grid is.
    """
    batch, _, hs, ws, ht, wt = x.shape
    after, _, size = weight.shape[:3]
    kernels = rearrange(weight, "after before i j k l -> (i j after) before k l")
    reach = size // 2
    rows = max(1, SLICE_ELEMENTS // (batch * size * size * after * ws * ht * wt))
    out: list[Tensor] = []
    for first in range(0, hs, rows):
        last = min(first + rows, hs)
        low, high = max(first - reach, 0), min(last + reach, hs)
        part = rearrange(x[:, :, low:high], "b before hs ws ht wt -> (b hs ws) before ht wt")
        parts = F.conv2d(part, kernels, padding=reach)
        parts = rearrange(
            parts, "(b hs ws) (i j after) ht wt -> i j b after hs ws ht wt", b=batch, ws=ws, i=size, j=size
        )
        # rows above the first and below the last one count as zeros
        parts = F.pad(parts, (0, 0, 0, 0, reach, reach, low - first + reach, last + reach - high))
        taps = ((i, j) for i in range(size) for j in range(size))
        out.append(torch.stack([parts[i, j][:, :, i : i + last - first, j : j + ws] for i, j in taps]).sum(0))
    result = torch.cat(out, dim=2)
    return result if bias is None else result + bias.view(-1, 1, 1, 1, 1)
