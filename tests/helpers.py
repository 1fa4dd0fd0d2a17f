"""Helpers that tests of several folders share."""

from jaxtyping import Float
from PIL import Image
from torch import Tensor

from mambamatcher.io.images import resize_square, to_bytes


def to_tensor(image: Image.Image, side: int) -> Float[Tensor, "3 side side"]:
    """Resize an image as the matcher does, with values in [0, 1]."""
    return to_bytes(resize_square(image, side)).float() / 255.0
