"""Where images come from: a folder, a manifest with one path per line, Parquet, or the frames of a video.

Parquet has a column `path`. Where it also has a column `bytes`, that is the image file, and the path only its name.
"""

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from itertools import accumulate, islice, pairwise
from os.path import exists  # unlike Path.exists, it accepts names that no file can have
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.extras import require
from mambamatcher.io.frame_selection import FrameSelection
from mambamatcher.io.images import ImageLike
from mambamatcher.io.videos import is_video, list_frames, read_frames

logger = logging.getLogger(__name__)

PATH, BYTES = "path", "bytes"
READ = 16  # images of a table at a time
AHEAD = 4  # images decoded before they are asked for, so that a slow file does not hold up the model

Given = TypeVar("Given")
Ready = TypeVar("Ready")


@dataclass(frozen=True, slots=True)
class Item:
    """An image by its name in the results: the file at `place`, or a row of the Parquet file there.

    With a `time`, in seconds, it is the frame `row` of the video there.
    """

    name: str
    place: str
    row: int | None = None
    time: float | None = None


@dataclass(frozen=True)
class Source:
    """All images to work on, in order, and the folder or file that they come from.

    Of a video, `frames` says which of its frames they are, and `damage` what is wrong with the file, if anything.
    """

    origin: Path
    items: list[Item]
    frames: FrameSelection | None = None
    damage: str | None = None

    def find(self, names: Collection[str]) -> Iterator[tuple[str, ImageLike]]:
        """Yield some of the images by their names, in their order here."""
        return images([item for item in self.items if item.name in names])


def read_source(origin: Path) -> Source:
    """List the images of a folder, a manifest or Parquet; no image is opened.

    Raises:
        InputError: There are none, one is listed twice, or the list cannot be read.
    """
    origin = origin.absolute()
    if is_video(origin):
        raise InputError(f"{origin} is a video; images are expected here, as a folder, a list of paths or Parquet")
    if not exists(origin):
        raise InputError(f"{origin} is not a folder of images")
    folder = origin.parent if origin.is_file() else origin
    names, tables = find_images(origin) if origin.is_dir() else [], sorted(origin.glob("*.parquet"))
    if origin.is_file() and origin.suffix != ".parquet":
        items = [Item(name, str(folder / name)) for name in _lines(origin)]
    elif origin.is_file() or (tables and not names):
        items = [item for table in tables or [origin] for item in _from_table(table, folder)]
    else:
        items = [Item(name, str(origin / name)) for name in names or list_targets(origin)]
    if not items:
        raise InputError(f"{origin} lists no images")
    for before, after in pairwise(sorted(item.name for item in items)):
        if before == after:
            raise InputError(f"{origin} lists {before} twice; each image must be there once")
    return Source(origin, items)


def read_video(origin: Path, frames: FrameSelection) -> Source:
    """List frames of a video; it is decoded once for that. Of a damaged one, these are the frames that can be read.

    A frame is named `clip.mp4#12`, by its number in the order in which a player shows them, from 0.

    Raises:
        InputError: The file is no video, or no frame can be read or is selected.
        MissingExtraError: PyAV is not installed.
    """
    origin = origin.absolute()
    listed = list_frames(origin, frames)
    items = [Item(f"{origin.name}#{number}", str(origin), number, time) for number, time in listed.frames]
    return Source(origin, items, frames, listed.damage)


def list_targets(folder: Path) -> list[str]:
    """Return the images under a folder by their path within it, in order; other files are skipped."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder of images")
    names = find_images(folder)
    if not names:
        raise InputError(f"there are no images in {folder}")
    return names


def find_images(folder: Path) -> list[str]:
    """Return the images under a folder, of which there may be none."""
    Image.init()
    endings = {ending for ending, name in Image.registered_extensions().items() if name in Image.OPEN}
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(
        each.as_posix()
        for each in found
        if each.suffix.lower() in endings and not any(part.startswith(".") for part in each.parts)
    )


def images(items: Sequence[Item]) -> Iterator[tuple[str, ImageLike]]:
    """Yield the name of each item and its file, the file's content, or the frame of a video."""
    if items and items[0].time is not None:
        names = {item.row: item.name for item in items if item.row is not None}
        yield from ((names[number], image) for number, image in read_frames(Path(items[0].place), names))
        return
    place, following, content = "", 0, iter(list[bytes]())
    for item in items:
        if item.row is None:
            yield item.name, item.place
            continue
        if item.place != place or item.row < following:
            place, (following, content) = item.place, _read_from(Path(item.place), item.row)
        image = next(islice(content, item.row - following, None), None)
        if image is None:
            raise InputError(f"{place} has no row {item.row + 1} any more; it has changed")
        following = item.row + 1
        yield item.name, image


def content_digest(image: ImageLike) -> str | None:
    """Return a name for the content of an image file; None where there is no file that can be read."""
    if isinstance(image, bytes):
        return blake2b(image, digest_size=8).hexdigest()
    if not isinstance(image, str | Path):
        return None
    try:
        with open(image, "rb") as file:
            return file_digest(file, lambda: blake2b(digest_size=8)).hexdigest()
    except OSError:
        return None


def content_of(items: Sequence[Item]) -> str:
    """Return a name for the content of several images."""
    contents = "\n".join(str(content) for _, content in _contents(items))
    return blake2b(contents.encode(), digest_size=8).hexdigest()


def _contents(items: Sequence[Item]) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each item and the digest of its content; of a frame, that is the content of the video."""
    if items and items[0].time is not None:
        content = content_digest(items[0].place)
        yield from ((item.name, content) for item in items)
        return
    yield from ((name, content_digest(image)) for name, image in images(items))


def changed(items: Sequence[Item], digests: Mapping[str, Any]) -> set[str]:
    """Return the names of the images whose content is no longer what these digests say."""
    known = [item for item in items if item.name in digests]
    found = {name for name, content in _contents(known) if content != digests[name]}
    if found:
        logger.warning("%d images have changed since they were done and are done again", len(found))
    return found


def read_each(
    read: Callable[[ImageLike], Ready], named: Iterable[tuple[str, ImageLike]]
) -> Iterator[tuple[str, Ready | InputError]]:
    """Yield each named image as `read` returns it, or why it cannot be read; the next ones are read meanwhile."""

    def read_one(image: tuple[str, ImageLike]) -> tuple[str, Ready | InputError]:
        try:
            return image[0], read(image[1])
        except InputError as error:
            return image[0], error

    return read_ahead(read_one, named)


def read_ahead(read: Callable[[Given], Ready], items: Iterable[Given], threads: int = 1) -> Iterator[Ready]:
    """Yield what `read` makes of each item, in order; the next ones are read while the caller uses this one.

    Args:
        read: Called with each item.
        items: What to read.
        threads: How many items are read at once.
    """
    upcoming = iter(items)
    pool = ThreadPoolExecutor(max_workers=threads)
    try:
        queue = deque(pool.submit(read, item) for item in islice(upcoming, AHEAD + threads - 1))
        while queue:
            ready = queue.popleft().result()
            queue.extend(pool.submit(read, item) for item in islice(upcoming, 1))
            yield ready
    finally:
        pool.shutdown(cancel_futures=True)  # a caller that stops early does not wait for what it will not see


def _lines(manifest: Path) -> list[str]:
    try:
        text = manifest.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise InputError(f"cannot read {manifest}: {error.strerror}") from error
    if "\0" in text:
        raise InputError(f"{manifest} is not a text file with one path per line; a single image goes into a folder")
    lines = text.split("\n")
    return [line for each in lines if (line := each.strip())]


def _from_table(path: Path, folder: Path) -> Iterator[Item]:
    names, embedded = _column(path, PATH)
    for row, name in enumerate(names):
        yield Item(name, str(path), row) if embedded else Item(name, str(folder / name))


def _column(path: Path, name: str) -> tuple[list[str], bool]:
    file = _open(path)
    if name not in file.schema_arrow.names:
        raise InputError(f"{path} has no column {name!r}; it has {', '.join(file.schema_arrow.names)}")
    with _reading(path):
        values = file.read(columns=[name]).column(name).to_pylist()
    if not all(isinstance(value, str) and value for value in values):
        raise InputError(f"{path}: the column {name!r} must hold text in every row")
    return values, BYTES in file.schema_arrow.names


def _read_from(path: Path, row: int) -> tuple[int, Iterator[bytes]]:
    """Return the first row of the row group that holds a row, and the images from there on, a few read at a time."""
    file = _open(path)
    ends = list(accumulate(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)))
    group = bisect_right(ends, row)

    def read() -> Iterator[bytes]:
        with _reading(path):
            groups = list(range(group, len(ends)))
            for batch in file.iter_batches(batch_size=READ, row_groups=groups, columns=[BYTES]):
                yield from (value if isinstance(value, bytes) else b"" for value in batch.column(0).to_pylist())

    return [0, *ends][group], read()


def _open(path: Path) -> Any:
    parquet = require_parquet()
    with _reading(path):
        return parquet.ParquetFile(path, buffer_size=1 << 20)  # else it holds all images of a row group


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, LookupError) as error:  # pyarrow's are of these kinds
        raise InputError(f"cannot read {path} as Parquet: {str(error).splitlines()[0]}") from error


def require_parquet() -> Any:
    """Return pyarrow's Parquet module, or say how to get it."""
    require("pyarrow.parquet")
    import pyarrow.parquet

    return pyarrow.parquet
