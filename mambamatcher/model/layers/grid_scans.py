"""Mamba blocks applied to a flattened grid: along one or several orders, or along PlainMamba's snakes."""

from collections.abc import Sequence
from math import prod

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.model.layers.mamba import Mamba, MambaSettings, SelectiveBlock
from mambamatcher.model.layers.positional import MATCH_COORDINATES
from mambamatcher.model.layers.scan_orders import directions, invert, snake, take

Shape = tuple[int, ...]
PLAIN_MAMBA_KERNEL = 7
Tokens = Float[Tensor, "batch position width"]


class OrderedScan(nn.Module):
    """One Mamba block per order. Each output is brought back to the original order, then all are summed.

    Args:
        width: Channels of the sequence.
        orders: Number of orders.
        settings: Sizes of the blocks.
        steered: Whether each block gets a projection of match coordinates to its Δ, B and C.
    """

    def __init__(self, width: int, orders: int, settings: MambaSettings, *, steered: bool = False) -> None:
        super().__init__()
        blocks = [Mamba(width, settings) for _ in range(orders)]
        self.blocks = nn.ModuleList(blocks)
        self.steering = nn.ModuleList(
            nn.Linear(MATCH_COORDINATES, block.rank + 2 * block.state, bias=False) for block in blocks if steered
        )

    def forward(
        self,
        sequence: Tokens,
        orders: Sequence[Tensor],
        coordinates: Float[Tensor, "batch position coordinate"] | None = None,
    ) -> Tokens:
        """Scan the sequence once along each order."""
        total = torch.zeros((), device=sequence.device)
        for index, (block, order) in enumerate(zip(self.blocks, orders, strict=True)):
            steering = None if coordinates is None else take(self.steering[index](coordinates), order)
            total = total + take(block(take(sequence, order), steering), invert(order))
        return total


class SnakeScan(SelectiveBlock):
    """PlainMamba's block: a convolution over the grid, then scans along a snake in both directions of every axis.

    All scans share their weights. A learnt vector for the direction of each step is added to B. As published, the
    convolution is depthwise, 7x7, and `MambaSettings.conv` is not used. A grid of four axes, the pairs of positions of
    two images, is convolved over the positions of each image in turn.
    """

    convolutions: nn.ModuleList

    def __init__(self, width: int, axes: int, settings: MambaSettings) -> None:
        self.images = axes // 2
        super().__init__(width, settings)
        self.direction_B = nn.Parameter(torch.empty(1 + 2 * axes, settings.state))
        if not self.direction_B.is_meta:
            nn.init.trunc_normal_(self.direction_B, std=0.02)

    def add_convolution(self, inner: int, settings: MambaSettings) -> None:
        """Create a convolution over the positions of each image."""
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inner, inner, PLAIN_MAMBA_KERNEL, padding=PLAIN_MAMBA_KERNEL // 2, groups=inner)
            for _ in range(self.images)
        )

    def forward(self, sequence: Tokens, shape: Shape) -> Tokens:
        """Sum the scans along all 2·axes paths, then apply the gate and the output projection once."""
        inner, gate = self.in_proj(sequence).chunk(2, dim=-1)
        u = F.silu(self._convolve(inner, shape))
        total = torch.zeros((), device=sequence.device)
        for axis in range(len(shape)):
            forwards = snake(shape, axis)
            for path in (forwards, forwards.flip(0)):
                order = path.to(sequence.device).expand(len(sequence), -1)
                direction = self.direction_B[directions(path, shape).to(sequence.device)]
                scanned = self.scan(take(u, order).transpose(1, 2), added_B=direction.T)
                total = total + take(scanned.transpose(1, 2), invert(order))
        return self.out_proj(total * F.silu(gate))

    def _convolve(
        self, inner: Float[Tensor, "batch position inner"], shape: Shape
    ) -> Float[Tensor, "batch position inner"]:
        for image, convolution in enumerate(self.convolutions):
            h, w = shape[2 * image : 2 * image + 2]
            before = prod(shape[: 2 * image])
            maps = rearrange(inner, "b (before h w after) d -> (b before after) d h w", before=before, h=h, w=w)
            inner = rearrange(
                convolution(maps), "(b before after) d h w -> b (before h w after) d", b=len(inner), before=before
            )
        return inner
