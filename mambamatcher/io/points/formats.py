"""The formats of files of points: a registry with an entry per format."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mambamatcher.io.points.annotations import Annotations, Settings
from mambamatcher.registry import Registry

Read: TypeAlias = Callable[[Path], Annotations]
Write: TypeAlias = Callable[[Path, Annotations, Settings], None]


@dataclass(frozen=True, kw_only=True)
class Format:
    """How points are read from a file and written to one; a format that is only written has neither `read` nor `parse`.

    Args:
        title: What people call it.
        file: Name of the file, or folder, that `propagate` writes; `{scorer}` stands for `Settings.scorer`.
        starts: Whether a file is of this format, from its path and its first bytes. The first format that says so
            reads it.
        holds: For JSON, whether its content is of this format.
        read: Reads a file. An error of malformed content may be a `LookupError`, `TypeError` or `ValueError`.
        parse: For JSON, reads the content instead.
        write: Fills a new file, or a new folder.
        is_folder: Whether several images are a folder of files.
        needs: Modules of an extra that reading and writing import.
    """

    title: str
    file: str
    write: Write
    starts: Callable[[Path, bytes], bool] | None = None
    read: Read | None = None
    holds: Callable[[Any], bool] | None = None
    parse: Callable[[Any], Annotations] | None = None
    is_folder: bool = False
    needs: tuple[str, ...] = ()

    @property
    def is_read(self) -> bool:
        """Whether files of this format can be read."""
        return self.read is not None or self.parse is not None


FORMATS: Registry[Format] = Registry("format of points")
