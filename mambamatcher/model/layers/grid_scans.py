"""Mamba blocks applied to a flattened grid: along one or several orders, or along PlainMamba's snakes."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.model.layers.mamba import Mamba, MambaSettings
from mambamatcher.model.layers.scan_orders import directions, invert, snake, take

Shape = tuple[int, ...]
Tokens = Float[Tensor, "batch position width"]


class OrderedScan(nn.Module):
    """One Mamba block per order. Each output is brought back to the original order, then all are summed."""

    def __init__(self, width: int, orders: int, settings: MambaSettings) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Mamba(width, settings) for _ in range(orders))

    def forward(self, sequence: Tokens, orders: Sequence[Tensor]) -> Tokens:
        """Scan the sequence once along each order."""
        scanned = (take(block(take(sequence, o)), invert(o)) for block, o in zip(self.blocks, orders, strict=True))
        return sum(scanned, start=torch.zeros((), device=sequence.device))


class SnakeScan(nn.Module):
    """PlainMamba: one direction-aware block that scans along a snake in both directions of every axis."""

    def __init__(self, width: int, axes: int, settings: MambaSettings) -> None:
        super().__init__()
        self.block = Mamba(width, settings, directions=1 + 2 * axes)

    def forward(self, sequence: Tokens, shape: Shape) -> Tokens:
        """Sum the scans along all 2·axes paths, then apply the gate and the output projection once."""
        inner, gate = self.block.in_proj(sequence).chunk(2, dim=-1)
        total = torch.zeros((), device=sequence.device)
        for axis in range(len(shape)):
            forwards = snake(shape, axis)
            for path in (forwards, forwards.flip(0)):
                order = path.to(sequence.device).expand(len(sequence), -1)
                direction = directions(path, shape).to(sequence.device)
                scanned = self.block.scan(take(inner, order), gate=None, direction=direction)
                total = total + take(scanned, invert(order))
        return self.block.out_proj(total * nn.functional.silu(gate))
