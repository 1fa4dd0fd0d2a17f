"""Where pictures come from: a folder, a manifest with one path a line, or Parquet.

Parquet has a column `path`; where it has a column `bytes` too, that is the picture's file, and the path only its name.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

from PIL import Image

from mambamatcher.errors import BackendError, InputError
from mambamatcher.io.images import ImageLike

PATH, BYTES = "path", "bytes"
READ = 16  # pictures of a table at a time


@dataclass(frozen=True, slots=True)
class Item:
    """A picture by its name in the results: the file at `place`, or a row of the Parquet file there."""

    name: str
    place: str
    row: int | None = None


@dataclass(frozen=True)
class Source:
    """All pictures to work on, in order.

    `listed` says that a manifest or Parquet names them, and not a folder of pictures itself.
    """

    origin: Path
    items: list[Item]
    listed: bool

    def find(self, names: Collection[str]) -> Iterator[tuple[str, ImageLike]]:
        """Yield some of the pictures by their names, in their order here."""
        return pictures([item for item in self.items if item.name in names])


def read_source(origin: Path) -> Source:
    """List the pictures of a folder, a manifest or Parquet; no picture is opened."""
    origin = origin.absolute()
    folder = origin.parent if origin.is_file() else origin
    names, tables = find_pictures(origin) if origin.is_dir() else [], sorted(origin.glob("*.parquet"))
    listed = origin.is_file() or bool(tables and not names)
    if origin.is_file() and origin.suffix != ".parquet":
        items = [Item(name, str(folder / name)) for name in _lines(origin)]
    elif listed:
        items = [item for table in tables or [origin] for item in _from_table(table, folder)]
    else:
        items = [Item(name, str(origin / name)) for name in names or list_targets(origin)]
    if not items:
        raise InputError(f"{origin} lists no pictures")
    for before, after in pairwise(sorted(item.name for item in items)):
        if before == after:
            raise InputError(f"{origin} lists {before} twice; each picture must be there once")
    return Source(origin, items, listed)


def list_targets(folder: Path) -> list[str]:
    """Return the pictures under a folder by their path within it, in order; other files are passed over."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder of pictures")
    names = find_pictures(folder)
    if not names:
        raise InputError(f"there are no pictures in {folder}")
    return names


def find_pictures(folder: Path) -> list[str]:
    """Return the pictures under a folder, of which there may be none."""
    Image.init()
    endings = {ending for ending, name in Image.registered_extensions().items() if name in Image.OPEN}
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(
        each.as_posix()
        for each in found
        if each.suffix.lower() in endings and not any(part.startswith(".") for part in each.parts)
    )


def pictures(items: Sequence[Item]) -> Iterator[tuple[str, ImageLike]]:
    """Yield the name of each item and its file, or the file's content."""
    place, following, content = "", 0, iter(list[bytes]())
    for item in items:
        if item.row is None:
            yield item.name, item.place
            continue
        if item.place != place or item.row < following:
            place, (following, content) = item.place, _read_from(Path(item.place), item.row)
        picture = next(islice(content, item.row - following, None), None)
        if picture is None:
            raise InputError(f"{place} has no row {item.row + 1} any more; it has changed")
        following = item.row + 1
        yield item.name, picture


def _lines(manifest: Path) -> list[str]:
    try:
        text = manifest.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise InputError(f"cannot read {manifest}: {error.strerror}") from error
    if "\0" in text:
        raise InputError(f"{manifest} is not a text file with one path a line; a single picture goes into a folder")
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
    """Return the first row of the row group that holds a row, and the pictures from there on, a few read at a time."""
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
        return parquet.ParquetFile(path, buffer_size=1 << 20)  # else it holds all pictures of a row group


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, LookupError) as error:  # pyarrow's are of these kinds
        raise InputError(f"cannot read {path} as Parquet: {str(error).splitlines()[0]}") from error


def require_parquet() -> Any:
    """Return pyarrow's Parquet module, or say how to get it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise BackendError("Parquet needs pyarrow: pip install 'mambamatcher[scale]'") from error
    return pyarrow.parquet
