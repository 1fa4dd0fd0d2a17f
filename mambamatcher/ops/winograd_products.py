"""Two consecutive 3×3 convolutions as matrix products alone, for graphs that ONNX Runtime executes.

Its convolution multiplies every weight with every pixel. Winograd's algorithm (`ops.winograd`) needs 5.06 times fewer
multiplications with tiles of 6×6. Here all of its steps are products with matrices that do not change: of an axis of
the maps with a transform, and of transformed tiles with transformed weights. Elements and tiles stay where these
products put them, so that nothing is copied in between.
"""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mambamatcher.ops.winograd import KERNEL, POINTS, Maps, matrices

MOST_WEIGHTS = 2**22  # transformed ones of a convolution; with more, memory costs more than the products save


def dividing_tile(grid: tuple[int, int], weight: Float[Tensor, "out in 3 3"]) -> int | None:
    """Return the largest tile size that divides a grid, or None if there is none or the weights would be too many."""
    fitting = [tile for tile in POINTS if grid[0] % tile == grid[1] % tile == 0]
    few = [tile for tile in fitting if (tile + KERNEL - 1) ** 2 * weight[..., 0, 0].numel() <= MOST_WEIGHTS]
    return max(few, default=None)


def convolve_twice_by_products(
    maps: Maps, widen: torch.nn.Conv2d, narrow: torch.nn.Conv2d, tile: int, activate: bool
) -> Maps:
    """Apply a convolution, ReLU and a second convolution; both keep the size of the maps.

    Args:
        maps: Input maps.
        widen: First convolution.
        narrow: Second convolution.
        tile: Tile size, which divides height and width.
        activate: Whether a ReLU follows the second convolution.
    """
    hidden = F.relu(_convolve(maps.permute(2, 3, 0, 1), widen, tile))
    result = _convolve(hidden, narrow, tile)
    return (F.relu(result) if activate else result).permute(2, 3, 0, 1)


def _convolve(
    rows: Float[Tensor, "h w map channel"], convolution: torch.nn.Conv2d, tile: int
) -> Float[Tensor, "h w map out"]:
    height, width, maps, channels = rows.shape
    assert convolution.bias is not None
    _, weight, back = matrices(tile)
    down, across, side = height // tile, width // tile, tile + KERNEL - 1
    forward = _forward(height, tile).reshape(-1, height)  # rows: tile, element
    tiles = torch.from_numpy(forward) @ rows.reshape(height, -1)
    forward = _forward(width, tile).swapaxes(0, 1).reshape(-1, width)  # rows: element, tile
    tiles = torch.from_numpy(forward) @ tiles.reshape(down * side, width, -1)
    both_axes = torch.from_numpy(np.kron(weight, weight))
    transformed = both_axes @ convolution.weight.permute(2, 3, 1, 0).reshape(KERNEL**2, -1)
    # of every element of a row of tiles: all tiles and maps at once
    tiles = tiles.reshape(down, side, side, across * maps, channels) @ transformed.reshape(side, side, channels, -1)
    backward = np.einsum("pe,tu->tpeu", back, np.eye(across, dtype=np.float32)).reshape(width, side * across)
    result = torch.from_numpy(backward) @ tiles.reshape(down * side, side * across, -1)
    result = torch.from_numpy(back) @ result.reshape(down, side, -1)
    return result.reshape(height, width, maps, -1) + convolution.bias


def _forward(size: int, tile: int) -> Float[np.ndarray, "tile element position"]:
    """Return the transform of all tiles of an axis, whose ends are padded with a zero."""
    forward = matrices(tile).input
    padded = np.zeros((size // tile, len(forward), size + KERNEL - 1), dtype=np.float32)
    for number, each in enumerate(padded):
        each[:, number * tile : number * tile + len(forward)] = forward
    return padded[..., 1:-1]
