"""Reading images safely and turning them into what a model takes."""

import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from io import BytesIO
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile
from torch import Tensor

from mambamatcher.errors import InputError

MAX_PIXELS = 100_000_000  # 10,000 x 10,000; more is refused before anything is decoded
MAX_SIDE = 1_000_000  # Pillow allocates 8 bytes per row beside the pixels, most of the memory of a very tall image

_ORIENTATION = 0x0112  # the EXIF tag that says how the image is stored
# Not ImageOps.exif_transpose: it writes the other EXIF tags back, which raises where one of them is damaged.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_PIECE = 1 << 20  # pixels
_STARTS_PROGRAMS = ("EPS",)  # Pillow would start Ghostscript, which runs the file as a program

# what Pillow raises on damaged files; it has no error class for them
DECODING = (
    OSError,
    ValueError,
    SyntaxError,
    LookupError,
    EOFError,
    TypeError,
    ArithmeticError,
    RuntimeError,
    AttributeError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)

ImageLike = str | PathLike[str] | bytes | Image.Image | np.ndarray | Tensor


def load_image(image: ImageLike) -> Image.Image:
    """Return an upright RGB image. EXIF rotation is applied, so points refer to what a viewer shows.

    Args:
        image: A path, `bytes` with a file's content, an image, an array (height, width) or (height, width, channel),
            or a tensor (channel, height, width). Arrays and tensors have 1, 3 or 4 channels of bytes, or of floats
            from 0 to 1.

    Raises:
        InputError: The image is missing, damaged, empty, too large, or of a kind that is not read.
    """
    if isinstance(image, Tensor):
        image = image.detach().cpu()
        image = (image.movedim(0, -1) if image.ndim == 3 else image).numpy()
    if isinstance(image, np.ndarray):
        image = _from_array(image)
    if isinstance(image, Image.Image):
        _check_size(image, "the image")
        return _upright_rgb(image, "the image")
    name, content = ("the image", BytesIO(image)) if isinstance(image, bytes) else (str(image), Path(image))
    if isinstance(content, Path):
        require_file(content)
    with _opened(content, name) as opened:
        _check_size(opened, name)
        return _upright_rgb(opened, name)


def read_size(path: Path) -> tuple[int, int]:
    """Return the `(width, height)` of the upright image in a file, from its header alone."""
    require_file(path)
    with _opened(path, str(path)) as opened:
        sideways = opened.format != "TIFF" and _orientation(opened) >= 5  # Pillow rotates TIFF itself
        return (opened.height, opened.width) if sideways else opened.size


def _opened(content: Path | BytesIO, name: str) -> Image.Image:
    """Read an image's header."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about size, where our own limit is stricter, or about damage
            opened = Image.open(content)
    except UnidentifiedImageError as error:
        size = content.stat().st_size if isinstance(content, Path) else len(content.getbuffer())
        raise InputError(f"{name} is {'not an image in a format that can be read' if size else 'empty'}") from error
    except DECODING as error:
        raise InputError(f"cannot read the image {name}: {error}") from error
    if opened.format in _STARTS_PROGRAMS:
        opened.close()
        raise InputError(f"{name} is {opened.format}, which is not read because that would start a program")
    return opened


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


def _check_size(image: Image.Image, name: str) -> None:
    width, height = image.size
    if not width or not height:
        raise InputError(f"{name} is empty: {width}x{height} pixels")
    if width * height > MAX_PIXELS:
        raise InputError(
            f"{name} has {width}x{height} pixels, more than the {MAX_PIXELS:,} allowed; make it smaller first"
        )
    if max(width, height) > MAX_SIDE:
        raise InputError(f"{name} has {width}x{height} pixels; no side may have more than {MAX_SIDE:,}")


def _orientation(image: Image.Image) -> int:
    """Return which of `_TURNS` makes an image upright, or 1. Damaged EXIF is ignored, as viewers do."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damage, without the image's name
            orientation = image.getexif().get(_ORIENTATION)
        return int(orientation) if orientation in _TURNS else 1
    except DECODING:
        return 1


def turn_upright(image: Image.Image) -> Image.Image:
    """Return an image as a viewer shows it, in its own colour mode."""
    _load(image)
    orientation = _orientation(image)
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


def _load(image: Image.Image) -> None:
    """Decode. Pillow memory-maps a TIFF by its file name and shears it if it is stored sideways; hide the name."""
    if not isinstance(image, TiffImageFile):
        image.load()
        return
    name, image.filename = image.filename, ""
    try:
        image.load()
    finally:
        image.filename = name


def _upright_rgb(image: Image.Image, name: str) -> Image.Image:
    try:
        upright = turn_upright(image)
        if upright.mode.startswith(("I", "F")):  # 16-bit and float greyscale: Pillow would clip at 255
            upright = _stretched(upright)
        if not upright.has_transparency_data:
            rgb = upright.convert("RGB")
            rgb.info.clear()  # its EXIF would rotate it again when it is loaded again
            return rgb
        if upright.mode != "RGBA":  # avoids a copy, 400 MB for the largest images
            upright = upright.convert("RGBA")
        white = Image.new("RGB", upright.size, "white")
        white.paste(upright, mask=upright)
        return white
    except DECODING as error:
        raise InputError(f"cannot decode {name}: {error}") from error


def _stretched(image: Image.Image) -> Image.Image:
    """Convert greyscale of more than 8 bits to 8: 16-bit by its full range, others by the range of their values."""
    low, high = 0.0, 65535.0
    if not image.mode.startswith("I;16"):
        ends = [(values.min(), values.max()) for _, values in _pieces(image)]
        low, high = min(first for first, _ in ends), max(last for _, last in ends)
    stretched = Image.new("L", image.size)
    for corner, values in _pieces(image):
        piece = np.uint8(np.clip((values - low) / max(high - low, 1e-12), 0, 1) * 255.0)
        stretched.paste(Image.fromarray(piece), corner)
    return stretched


def _pieces(image: Image.Image) -> Iterator[tuple[tuple[int, int], Float64[np.ndarray, "height width"]]]:
    """Yield an image's values tile by tile, each with its upper left corner: all at once would take gigabytes."""
    width = min(image.width, _PIECE)
    height = _PIECE // width
    for top in range(0, image.height, height):
        for left in range(0, image.width, width):
            box = left, top, min(left + width, image.width), min(top + height, image.height)
            yield (left, top), np.nan_to_num(np.asarray(image.crop(box), dtype=np.float64))


def resize_square(image: Image.Image, side: int) -> Image.Image:
    """Resize to `side` by `side`, without keeping the aspect ratio; every path into a model resamples like this."""
    return image.resize((side, side), Image.Resampling.BILINEAR, reducing_gap=3.0)


def to_bytes(image: Image.Image) -> UInt8[Tensor, "3 height width"]:
    """Return the pixels of an RGB image."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
