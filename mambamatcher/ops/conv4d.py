"""Dense 4D convolution, computed with 2D convolutions."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

SLICE_ELEMENTS = 2**23  # size limit of the largest intermediate tensor: 32 MB in float32


def conv4d(
    x: Float[Tensor, "batch before hs ws ht wt"],
    weight: Float[Tensor, "after before k k k k"],
    bias: Float[Tensor, " after"] | None = None,
) -> Float[Tensor, "batch after hs ws ht wt"]:
    """Convolve over all four dimensions with stride 1 and zero padding, so that the size stays the same.

    For each of the k·k source offsets, a 2D convolution over the target dimensions computes that offset's
    contribution. The contributions are then shifted by their offset and added. A few source rows are processed at a
    time, which bounds the memory besides input and output for grids of any size.

    Args:
        x: Input.
        weight: Kernel of odd size k in every dimension.
        bias: Added to every output channel.

    Example:
        >>> conv4d(torch.ones(1, 1, 3, 3, 3, 3), torch.ones(1, 1, 3, 3, 3, 3))[0, 0, 1, 1, 1, 1]  # 3**4 neighbours
        tensor(81.)
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
        # zero rows above the first and below the last row of the grid
        parts = F.pad(parts, (0, 0, 0, 0, reach, reach, low - first + reach, last + reach - high))
        taps = ((i, j) for i in range(size) for j in range(size))
        out.append(torch.stack([parts[i, j][:, :, i : i + last - first, j : j + ws] for i, j in taps]).sum(0))
    result = torch.cat(out, dim=2)
    return result if bias is None else result + bias.view(-1, 1, 1, 1, 1)
