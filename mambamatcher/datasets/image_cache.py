"""Decode images: check them against their annotation, and cache them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

from PIL import Image, ImageOps

from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.records import AnnotatedImage, Pair
from mambamatcher.errors import InputError
from mambamatcher.io.images import load_image

CACHE_BYTES = 256 << 20


@runtime_checkable
class Array(Protocol):
    """An array or a tensor."""

    @property
    def nbytes(self) -> int:
        """Bytes that its values take."""
        ...


Decoded = TypeVar("Decoded", bound=Image.Image | Array)


def read_image(annotated: AnnotatedImage) -> Image.Image:
    """Decode an image as RGB, mirrored if its annotation is.

    Raises:
        InputError: If it cannot be decoded, or its size is not the annotated one.
    """
    image = load_image(annotated.path if annotated.rendered is None else annotated.rendered)
    if image.size != annotated.size:
        raise InputError(
            f"{annotated.path}: the image is {image.size[0]}x{image.size[1]}, "
            f"its annotation is for {annotated.size[0]}x{annotated.size[1]}"
        )
    return ImageOps.mirror(image) if annotated.flip else image


class ImageCache(Generic[Decoded]):
    """Cache of decoded images that evicts the least recently used one.

    Args:
        load: Decodes an image that is not in the cache.
        capacity: Bytes to hold. A single image is held even if it is larger.
    """

    def __init__(self, load: Callable[[AnnotatedImage], Decoded], capacity: int = CACHE_BYTES) -> None:
        self.load: Callable[[AnnotatedImage], Decoded] = load
        self.capacity = capacity
        self._images: OrderedDict[tuple[Path, bool], Decoded] = OrderedDict()
        self._bytes = 0

    def __getitem__(self, annotated: AnnotatedImage) -> Decoded:
        key = annotated.path, annotated.flip
        image = self._images.pop(key, None)
        if image is None:
            image = self.load(annotated)
            self._bytes += _bytes(image)
        self._images[key] = image
        while self._bytes > self.capacity and len(self._images) > 1:
            self._bytes -= _bytes(self._images.popitem(last=False)[1])
        return image


def without_bad_images(pairs: Sequence[Pair], faults: Faults) -> list[Pair]:
    """Decode every image once and drop pairs with an image that fails. Each is added to `faults`."""
    images = {image.path: image for pair in pairs for image in (pair.source, pair.target)}
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = dict(zip(images, pool.map(_fault_of, images.values()), strict=True))
    kept = []
    for pair in pairs:
        bad = [fault for image in (pair.source, pair.target) if (fault := found[image.path])]
        if bad:
            faults.messages.append(f"{pair.name}: {bad[0]}")
        else:
            kept.append(pair)
    return kept


def _fault_of(annotated: AnnotatedImage) -> str | None:
    try:
        read_image(annotated)
    except InputError as error:
        return str(error)
    return None


def _bytes(image: Image.Image | Array) -> int:
    return 3 * image.width * image.height if isinstance(image, Image.Image) else image.nbytes
