"""Where pictures come from: a folder, a manifest with one path a line, or Parquet.

Parquet has a column `path`; where it has a column `bytes` too, that is the picture's file, and the path only its name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mambamatcher.apps.propagate import list_targets
from mambamatcher.errors import BackendError, InputError
from mambamatcher.images import ImageLike

PATH, BYTES = "path", "bytes"


@dataclass(frozen=True, slots=True)
class Item:
    """A picture by its name in the results: the file at `place`, or a row of the Parquet file there."""

    name: str
    place: str
    row: int | None = None


@dataclass(frozen=True)
class Source:
    """All pictures to work on, in order; `folder` is what names that are paths are relative to.

    `listed` says that a manifest or Parquet names them, and not a folder of pictures itself.
    """

    origin: Path
    folder: Path
    items: list[Item]
    listed: bool


def read_source(origin: Path) -> Source:
    """List the pictures of a folder, a manifest or Parquet; no picture is opened."""
    origin = origin.absolute()
    tables = [origin] if origin.suffix == ".parquet" else sorted(origin.glob("*.parquet")) if origin.is_dir() else []
    if tables:
        folder = origin if origin.is_dir() else origin.parent
        items = [item for table in tables for item in _from_table(table, folder)]
    elif origin.is_file():
        folder = origin.parent
        items = [Item(name, str(folder / name)) for name in _lines(origin)]
    else:
        folder = origin
        items = [Item(name, str(origin / name)) for name in list_targets(origin)]
    if not items:
        raise InputError(f"{origin} lists no pictures")
    for before, after in pairwise(sorted(item.name for item in items)):
        if before == after:
            raise InputError(f"{origin} lists {before} twice; each picture must be there once")
    return Source(origin, folder, items, listed=bool(tables) or origin.is_file())


def pictures(items: Sequence[Item]) -> Iterator[tuple[str, ImageLike]]:
    """Yield the name of each item and its file, or the file's content."""
    first, content = 0, list[bytes]()
    for item in items:
        if item.row is None:
            yield item.name, item.place
            continue
        if not first <= item.row < first + len(content):
            first, content = _row_group(Path(item.place), item.row)
        yield item.name, content[item.row - first]


def _lines(manifest: Path) -> list[str]:
    try:
        lines = manifest.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError as error:
        raise InputError(f"cannot read {manifest}: {error.strerror}") from error
    return [line for each in lines if (line := each.strip())]


def _from_table(path: Path, folder: Path) -> Iterator[Item]:
    names, embedded = _column(path, PATH)
    for row, name in enumerate(names):
        yield Item(name, str(path), row) if embedded else Item(name, str(folder / name))


def _column(path: Path, name: str) -> tuple[list[str], bool]:
    file = _open(path)
    if name not in file.schema_arrow.names:
        raise InputError(f"{path} has no column {name!r}; it has {', '.join(file.schema_arrow.names)}")
    values = file.read(columns=[name]).column(name).to_pylist()
    if not all(isinstance(value, str) and value for value in values):
        raise InputError(f"{path}: the column {name!r} must hold text in every row")
    return values, BYTES in file.schema_arrow.names


def _row_group(path: Path, row: int) -> tuple[int, list[bytes]]:
    """Return the pictures of the row group that holds a row, and the number of its first row."""
    file = _open(path)
    first = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if row < first + rows:
            values = file.read_row_group(group, columns=[BYTES]).column(BYTES).to_pylist()
            return first, [value if isinstance(value, bytes) else b"" for value in values]
        first += rows
    raise InputError(f"{path} has {first} rows, not {row + 1}; it has changed")


def _open(path: Path) -> Any:
    parquet = require_parquet()
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} as Parquet: {error}") from error


def require_parquet() -> Any:
    """Return pyarrow's Parquet module, or say how to get it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise BackendError("Parquet needs pyarrow: pip install 'mambamatcher[scale]'") from error
    return pyarrow.parquet
