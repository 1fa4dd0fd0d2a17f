"""Uploaded images: decoded by their content, never by their file name, and stored as small copies."""

import secrets
from dataclasses import dataclass, field
from io import BytesIO
from os.path import basename

import numpy as np
from PIL import Image

from mambamatcher.io.decoding_worker import WORKERS
from mambamatcher.io.image_headers import inspect
from mambamatcher.io.images import load_image

# Pillow's other formats are rarely tested, and some of them start external programs.
FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"]
MAX_COPY_SIDE = 1280  # several times the input size of any model
MAX_NAME_LENGTH = 80


@dataclass(frozen=True)
class Upload:
    """The bytes of an uploaded file, not decoded yet, and the name to display for it."""

    data: bytes
    name: str


@dataclass(frozen=True, kw_only=True)
class StoredImage:
    """An image of a session: the size of the upright original, and a smaller copy to display and match.

    Attributes:
        id: A random id, by which the session's client refers to the image.
        name: The name to display.
        width: Width of the upright original in pixels.
        height: Height of the upright original in pixels.
        jpeg: The copy, encoded. Neither side exceeds `MAX_COPY_SIDE`.
    """

    id: str
    name: str
    width: int
    height: int
    jpeg: bytes = field(repr=False)

    def decode_copy(self) -> Image.Image:
        """Decode the copy."""
        return load_image(Image.open(BytesIO(self.jpeg)))

    def scale_from(self, copy: Image.Image) -> np.ndarray:
        """Return the factors (x, y) that convert pixels of the copy to pixels of the original."""
        return np.array([self.width / copy.width, self.height / copy.height])


def store_image(image: Image.Image, name: str) -> StoredImage:
    """Make the copy of an upright image that a session stores. It holds no metadata, such as GPS coordinates."""
    width, height = image.size
    image.thumbnail((MAX_COPY_SIDE, MAX_COPY_SIDE), Image.Resampling.LANCZOS, reducing_gap=3.0)
    encoded = BytesIO()
    image.save(encoded, "JPEG", quality=95, subsampling=0)
    return StoredImage(id=secrets.token_urlsafe(12), name=name, width=width, height=height, jpeg=encoded.getvalue())


def decode(data: bytes, name: str, max_pixels: int) -> Image.Image:
    """Decode an uploaded file to an upright image, in a process with limits of time and memory.

    Args:
        data: The content of the file.
        name: The name to use in error messages.
        max_pixels: Limit on width times height, checked before any pixel is decoded.

    Raises:
        InputError: The file is empty, damaged, too large or not an image of one of the accepted formats.
    """
    inspect(data, name)  # refuses the worst files without a process
    return WORKERS.decode(data, name, max_pixels, FORMATS)


def display_name(file_name: str | None) -> str:
    """Turn a client's file name into a label: no folders, no unprintable characters, not too long."""
    base = basename((file_name or "").replace("\\", "/"))
    printable = "".join(character for character in base if character.isprintable())
    return printable[:MAX_NAME_LENGTH].strip() or "image"
