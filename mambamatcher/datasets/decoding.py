"""Pictures from files: decoded once, checked, squared and kept while there is room."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageOps
from torch import Tensor

from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.records import AnnotatedImage, Pair, Size
from mambamatcher.errors import InputError
from mambamatcher.io.images import load_image

CACHE_BYTES = 256 << 20

Picture = TypeVar("Picture", Image.Image, Tensor)


def read_image(annotated: AnnotatedImage) -> Image.Image:
    """Decode a picture as RGB, mirrored where its annotation is."""
    image = load_image(annotated.path if annotated.picture is None else annotated.picture)
    if image.size != annotated.size:
        raise InputError(
            f"{annotated.path}: the image is {image.size[0]}x{image.size[1]}, "
            f"its annotation is for {annotated.size[0]}x{annotated.size[1]}"
        )
    return ImageOps.mirror(image) if annotated.flip else image


def to_square(image: Image.Image, side: int, keep_aspect: bool = False) -> UInt8[Tensor, "3 side side"]:
    """Resize to `side` by `side`; keeping the aspect, the picture fills the upper left and the rest is black."""
    if keep_aspect:
        canvas = Image.new("RGB", frame_size(image.size, keep_aspect))
        canvas.paste(image)
        image = canvas
    # the same resampling as `mambamatcher.io.images.to_tensor`, kept as bytes
    resized = image.resize((side, side), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return torch.from_numpy(np.array(resized)).permute(2, 0, 1).contiguous()


def frame_size(size: Size, keep_aspect: bool) -> Size:
    """Return the size the unit frame of a squared picture spans, in original pixels."""
    return (max(size), max(size)) if keep_aspect else size


class ImageCache(Generic[Picture]):
    """Pictures as `load` makes them, the least recently used dropped first when `capacity` bytes are full."""

    def __init__(self, load: Callable[[AnnotatedImage], Picture], capacity: int = CACHE_BYTES) -> None:
        self.load: Callable[[AnnotatedImage], Picture] = load
        self.capacity = capacity
        self._pictures: OrderedDict[tuple[Path, bool], Picture] = OrderedDict()
        self._bytes = 0

    def __getitem__(self, annotated: AnnotatedImage) -> Picture:
        key = annotated.path, annotated.flip
        picture = self._pictures.pop(key, None)
        if picture is None:
            picture = self.load(annotated)
            self._bytes += _bytes(picture)
        self._pictures[key] = picture
        while self._bytes > self.capacity and len(self._pictures) > 1:
            self._bytes -= _bytes(self._pictures.popitem(last=False)[1])
        return picture


def without_bad_images(pairs: Sequence[Pair], faults: Faults) -> list[Pair]:
    """Decode every picture once and drop the pairs of those that fail, each noted with its file."""
    images = {image.path: image for pair in pairs for image in (pair.source, pair.target)}
    with ThreadPoolExecutor(max_workers=2) as pool:
        reasons = dict(zip(images, pool.map(_reason, images.values()), strict=True))
    kept = []
    for pair in pairs:
        bad = [reason for image in (pair.source, pair.target) if (reason := reasons[image.path])]
        if bad:
            faults.messages.append(f"{pair.name}: {bad[0]}")
        else:
            kept.append(pair)
    return kept


def _reason(annotated: AnnotatedImage) -> str | None:
    try:
        read_image(annotated)
    except InputError as error:
        return str(error)
    return None


def _bytes(picture: Image.Image | Tensor) -> int:
    return picture.nbytes if isinstance(picture, Tensor) else 3 * picture.width * picture.height
