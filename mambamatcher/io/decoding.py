"""Decode image files with Pillow, within limits. Free of PyTorch, because a process of its own does nothing else."""

import struct
import warnings
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

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


def decode(content: Path | bytes, name: str, max_pixels: int, formats: list[str] | None = None) -> Image.Image:
    """Decode an image file to an upright RGB image.

    Args:
        content: A path, or the content of a file.
        name: Name of the file for error messages.
        max_pixels: Limit on width times height, checked before any pixel is decoded.
        formats: Pillow's names of the formats to accept; None for all.

    Raises:
        InputError: The file is empty, damaged, too large, or of another format.
    """
    with open_header(content, name, formats) as opened:
        check_size(opened, name, max_pixels)
        return upright_rgb(opened, name)


def open_header(content: Path | bytes, name: str, formats: list[str] | None = None) -> Image.Image:
    """Read an image's header."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about size, where our own limit is stricter, or about damage
            opened = Image.open(
                BytesIO(content) if isinstance(content, bytes) else content,
                formats=None if formats is None else list(formats),
            )
    except UnidentifiedImageError as error:
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        advice = f"; use {', '.join(formats)}" if formats else ""
        reason = f"not a readable image{advice}" if size else "empty"
        raise InputError(f"{name} is {reason}") from error
    except DECODING as error:
        raise InputError(f"cannot read {name}: {_reason(error)}") from error
    if opened.format in _STARTS_PROGRAMS:
        opened.close()
        raise InputError(f"{name} is {opened.format}, which is not read because that would start a program")
    return opened


def check_size(image: Image.Image, name: str, max_pixels: int) -> None:
    """Refuse an empty image, and one of more pixels than are decoded."""
    width, height = image.size
    if not width or not height:
        raise InputError(f"{name} is empty: {width}x{height} pixels")
    if width * height > max_pixels:
        raise InputError(
            f"{name} has {width}x{height} pixels, more than the {max_pixels:,} allowed; make it smaller first"
        )
    if max(width, height) > MAX_SIDE:
        raise InputError(f"{name} has {width}x{height} pixels; no side may have more than {MAX_SIDE:,}")


def orientation_of(image: Image.Image) -> int:
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
    orientation = orientation_of(image)
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


def upright_rgb(image: Image.Image, name: str) -> Image.Image:
    """Decode an opened image, turn it upright and blend what is transparent with white."""
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
        raise InputError(f"cannot decode {name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return "it needs more memory than is allowed" if isinstance(error, MemoryError) else str(error)


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
