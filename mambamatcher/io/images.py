"""Reading images safely and turning them into what a model takes."""

import os
from mmap import ACCESS_READ, mmap
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.io.decoding import MAX_PIXELS, check_size, decode, open_header, orientation_of, upright_rgb
from mambamatcher.io.decoding_worker import WORKERS
from mambamatcher.io.image_headers import inspect


@runtime_checkable
class TensorLike(Protocol):
    """What is used of a PyTorch tensor; PyTorch itself need not be installed."""

    @property
    def ndim(self) -> int:
        """Number of axes."""
        ...

    def detach(self) -> Any:
        """Return the values without their gradient."""
        ...

    def movedim(self, source: int, destination: int) -> Any:
        """Move an axis."""
        ...


ImageLike = str | PathLike[str] | bytes | Image.Image | np.ndarray | TensorLike


def load_image(image: ImageLike) -> Image.Image:
    """Return an upright RGB image. EXIF rotation is applied, so points refer to what a viewer shows.

    Args:
        image: A path, `bytes` with a file's content, an image, an array (height, width) or (height, width, channel),
            or a tensor (channel, height, width). Arrays and tensors have 1, 3 or 4 channels of bytes, or of floats
            from 0 to 1.

    Raises:
        InputError: The image is missing, damaged, empty, too large, or of a kind that is not read.
    """
    if isinstance(image, TensorLike):  # a tensor of PyTorch
        image = (image.movedim(0, -1) if image.ndim == 3 else image).detach().cpu().numpy()
    if isinstance(image, np.ndarray):
        image = _from_array(image)
    if isinstance(image, Image.Image):
        check_size(image, "the image", MAX_PIXELS)
        return upright_rgb(image, "the image")
    assert not isinstance(image, TensorLike)
    content, name = (image, "the image") if isinstance(image, bytes) else (Path(image), str(image))
    if isinstance(content, Path):
        require_file(content)
    return (WORKERS.decode if _is_suspicious(content, name) else decode)(content, name, MAX_PIXELS)


def read_size(path: Path) -> tuple[int, int]:
    """Return the `(width, height)` of the upright image in a file, from its header alone."""
    require_file(path)
    if _is_suspicious(path, str(path)):
        return load_image(path).size
    with open_header(path, str(path)) as opened:
        check_size(opened, str(path), MAX_PIXELS)  # EXIF may stand behind the pixels, and Pillow decodes these first
        sideways = opened.format != "TIFF" and orientation_of(opened) >= 5  # Pillow rotates TIFF itself
        return (opened.height, opened.width) if sideways else opened.size


def _is_suspicious(content: Path | bytes, name: str) -> bool:
    """Return whether decoding a file could take long, from its structure alone."""
    if isinstance(content, bytes):
        return inspect(content, name)
    try:
        with content.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:  # it could not be mapped
                return False
            with mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
                return inspect(mapped, name)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error


def _from_array(array: np.ndarray) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] in (3, 4)):
        raise InputError(
            f"an image must be an array (height, width[, channel]) or a tensor (channel, height, width) of 1, 3 or 4 "
            f"channels; as an array its shape is {array.shape}"
        )
    if np.issubdtype(array.dtype, np.floating):
        if array.size and not (array.min() >= 0 and array.max() <= 1):
            raise InputError(f"an image of floats must hold values from 0 to 1, got {array.min():g} to {array.max():g}")
        array = np.round(array * 255.0).astype(np.uint8)
    if array.dtype != np.uint8:
        raise InputError(f"an image must hold bytes, or floats from 0 to 1, got {array.dtype}")
    if not array.size:
        raise InputError(f"the image is empty: its shape is {array.shape}")
    return Image.fromarray(np.ascontiguousarray(array))


def require_file(path: Path) -> None:
    """Refuse an image file that does not exist."""
    if not os.path.isfile(path):  # unlike Path.is_file, it accepts names that no file can have
        raise InputError(f"there is no image file at {path}")


def resize_square(image: Image.Image, side: int) -> Image.Image:
    """Resize to `side` by `side`, without keeping the aspect ratio; every path into a model resamples like this."""
    return image.resize((side, side), Image.Resampling.BILINEAR, reducing_gap=3.0)


def to_bytes(image: Image.Image) -> UInt8[np.ndarray, "3 height width"]:
    """Return the pixels of an RGB image."""
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))
