"""Positional encodings for the scan over the 4D correlation map (App. C)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.model.geometry import axis_centres
from mambamatcher.registry import Registry

Shape = tuple[int, ...]
WAVES = (1, 2)  # half periods of the match coordinates per unit
MATCH_COORDINATES = 6 * (1 + 2 * len(WAVES))

POSITIONAL_ENCODINGS: Registry[Callable[[int], nn.Module]] = Registry("positional encoding")


@POSITIONAL_ENCODINGS.register("none")
class NoEncoding(nn.Module):
    """Returns the sequence unchanged: the paper's default."""

    def __init__(self, channels: int) -> None:
        super().__init__()

    def forward(
        self, sequence: Float[Tensor, "batch position channel"], shape: Shape
    ) -> Float[Tensor, "batch position channel"]:
        """Return the sequence unchanged."""
        return sequence


class AxisEncoding(nn.Module):
    """Base class: the encoding of a position is the sum of one vector per axis."""

    def table(self, axis: int, count: int, like: Tensor) -> Float[Tensor, "count channel"]:
        """Return the vectors of one axis with `count` coordinates; `like` gives dtype and device."""
        raise NotImplementedError

    def forward(
        self, sequence: Float[Tensor, "batch position channel"], shape: Shape
    ) -> Float[Tensor, "batch position channel"]:
        """Add the encoding of every axis."""
        grid = sequence.unflatten(1, shape)
        for axis, count in enumerate(shape):
            table = self.table(axis, count, sequence)
            grid = grid + table.reshape(*(count if a == axis else 1 for a in range(len(shape))), -1)
        return grid.flatten(1, len(shape))


@POSITIONAL_ENCODINGS.register("sinusoidal")
class SinusoidalEncoding(AxisEncoding):
    """Fixed sines and cosines; channel i encodes axis i modulo 4."""

    axes = 4

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def table(self, axis: int, count: int, like: Tensor) -> Float[Tensor, "count channel"]:
        """Return sines and cosines of doubling frequency in the channels of this axis and zeros in the others."""
        table = like.new_zeros(count, self.channels)
        angle = torch.pi * axis_centres(count, like.device)
        for turn, channel in enumerate(range(axis, self.channels, self.axes)):
            wave = torch.sin if turn % 2 == 0 else torch.cos
            table[:, channel] = wave(angle * 2.0 ** (turn // 2))
        return table


@POSITIONAL_ENCODINGS.register("learnable")
class LearnableEncoding(AxisEncoding):
    """Learnt vectors for the paper's 30 coordinates per axis, interpolated to other grid sizes."""

    def __init__(self, channels: int, axes: int = 4, count: int = 30) -> None:
        super().__init__()
        self.tables = nn.Parameter(0.02 * torch.randn(axes, channels, count))

    def table(self, axis: int, count: int, like: Tensor) -> Float[Tensor, "count channel"]:
        """Return the vectors of this axis, interpolated to `count` coordinates."""
        return F.interpolate(self.tables[axis : axis + 1], count, mode="linear", align_corners=False)[0].T


def match_coordinates(shape: Shape, like: Tensor) -> Float[Tensor, "hs ws ht wt coordinate"]:
    """Return source position, target position and displacement of every match, in the unit frame, and waves of them.

    Args:
        shape: Size of the correlation map: hs, ws, ht, wt.
        like: Gives dtype and device.
    """
    centres = [axis_centres(count, like.device).to(like.dtype) for count in shape]
    source_y, source_x, target_y, target_x = torch.meshgrid(*centres, indexing="ij")
    plain = torch.stack(
        [source_x, source_y, target_x, target_y, target_x - source_x, target_y - source_y],
        dim=-1,
    )
    waves = [wave(torch.pi * turns * plain) for turns in WAVES for wave in (torch.sin, torch.cos)]
    return torch.cat([plain, *waves], dim=-1)
