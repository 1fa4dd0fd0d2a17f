"""Reading what a client uploaded: by its content, never by its name."""

import secrets
from dataclasses import dataclass, field
from io import BytesIO
from os.path import basename

import numpy as np
from PIL import Image, UnidentifiedImageError

from mambamatcher.errors import InputError
from mambamatcher.io.images import DECODING, load_image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")  # Pillow's others start programs or are rarely tested
SHOWN_SIDE = 1280  # several times what any model sees
NAME_LENGTH = 80


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An upright picture: its size in pixels, and a copy no larger than `SHOWN_SIDE` to show and to match."""

    id: str
    name: str
    width: int
    height: int
    jpeg: bytes = field(repr=False)

    def image(self) -> Image.Image:
        """Return the copy, decoded."""
        return load_image(Image.open(BytesIO(self.jpeg)))

    def scale(self, copy: Image.Image) -> np.ndarray:
        """Return how many pixels of the picture one of its copy is, in x and y."""
        return np.array([self.width / copy.width, self.height / copy.height])


def keep(image: Image.Image, name: str) -> Picture:
    """Make the copy of a picture that a session keeps; nothing else of the upload, such as where it was taken, is."""
    width, height = image.size
    image.thumbnail((SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.LANCZOS, reducing_gap=3.0)
    encoded = BytesIO()
    image.save(encoded, "JPEG", quality=95, subsampling=0)
    return Picture(id=secrets.token_urlsafe(12), name=name, width=width, height=height, jpeg=encoded.getvalue())


def decode(data: bytes, name: str, max_pixels: int) -> Image.Image:
    """Return the upright picture in `data`; its size is checked before anything is decoded."""
    try:
        opened = Image.open(BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError as error:
        what = "not an image that can be read; use JPEG, PNG, WebP, GIF, BMP or TIFF" if data else "empty"
        raise InputError(f"{name} is {what}") from error
    except DECODING as error:
        raise InputError(f"cannot read {name}: {error}") from error
    with opened:
        width, height = opened.size
        if width * height > max_pixels:
            raise InputError(
                f"{name} has {width}x{height} pixels, more than the {max_pixels:,} allowed; make it smaller first"
            )
        try:
            return load_image(opened)
        except InputError as error:
            raise InputError(str(error).replace("the image", name, 1)) from error


def label(name: str | None) -> str:
    """Return a client's file name as something to show: no folders, nothing unprintable, not long."""
    shown = "".join(each for each in basename((name or "").replace("\\", "/")) if each.isprintable())
    return shown[:NAME_LENGTH].strip() or "picture"
