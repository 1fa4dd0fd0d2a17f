"""Writing files whole or not at all, and never over a user's own."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from mambamatcher.errors import ConfigError, InputError


class InUseError(InputError):
    """A file that another process holds locked."""


SETTINGS_BYTES = 1 << 20  # limit of a file of settings; those that are written have some kilobytes


def parse_json(text: str | bytes) -> Any:
    """Read JSON; what is no JSON, nested too deeply, or names a key twice, is a `ValueError`."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Of a key that appears twice, readers take different values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise InputError(f"the key {counts.most_common(1)[0][0]!r} appears more than once")
    return found


def read_settings(path: Path) -> Any:
    """Read a small JSON file, such as a configuration.

    Raises:
        ConfigError: The file is missing, too large, or no JSON.
    """
    try:
        with path.open("rb") as file:
            content = file.read(SETTINGS_BYTES + 1)
        if len(content) > SETTINGS_BYTES:
            raise ValueError(f"it has more than the {SETTINGS_BYTES:,} bytes that settings may have")
        return parse_json(content)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Stop before any work is done if the result could not be written."""
    if os.path.exists(path) and not overwrite:  # unlike Path.exists, it accepts names that no file can have
        raise InputError(f"{path} exists already; choose another name or ask to overwrite it")
    if not os.path.isdir(path.parent):
        raise InputError(f"there is no folder {path.parent} to write {path.name} into; create it first")


def make_folder(path: Path) -> None:
    """Create a folder, and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot use {path} as a folder: {error.strerror}") from error


def remove_files(*paths: Path) -> None:
    """Remove files, in order, that may be there."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot remove {path}: {error.strerror}") from error


def move_files(places: Mapping[Path, Path]) -> None:
    """Move files, each in one step, over those that are there; folders are created."""
    for folder in {target.parent for target in places.values()}:
        make_folder(folder)
    try:
        for source, target in places.items():
            os.replace(source, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error


def write_atomically(path: Path, write: Callable[[Path], None], overwrite: bool = False) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step."""
    refuse_existing(path, overwrite)
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix, delete=False) as handle:
            temporary = Path(handle.name)
        try:
            write(temporary)
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def write_bytes_atomically(path: Path, content: bytes, overwrite: bool = False) -> None:
    """Write a file in one step, so that no reader ever sees a part of it; see `write_text_atomically`."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_atomically(path, write, overwrite)


def write_text_atomically(path: Path, text: str, overwrite: bool = False, errors: str = "strict") -> None:
    """Write a UTF-8 text file in one step, so that no reader ever sees a part of it.

    Args:
        path: The file.
        text: Its content, written as it is on every system.
        overwrite: Whether to replace an existing file.
        errors: What to do with characters that are not UTF-8, as in file names; see `str.encode`.

    Raises:
        InputError: If the file exists and must not be replaced, or cannot be written.
    """

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8", errors=errors, newline="")

    write_atomically(path, write, overwrite)


def open_lines(path: Path) -> FileIO:
    """Open and lock a file to read it and to append lines; nothing is buffered, so nothing waits to be lost."""
    try:
        file = FileIO(path, "a+")
        _lock(file)
        if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            raise BlockingIOError  # the process that held the lock has just replaced the file
    except BlockingIOError as error:
        raise InUseError(f"another process is writing {path}; wait for it, or use another folder") from error
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    return file


def _lock(file: FileIO) -> None:
    """Keep a file from other processes until it is closed; a process that is killed holds no lock."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # this file system has no locks
        return


def append_line(file: FileIO, content: Mapping[str, Any]) -> None:
    """Hand one line of JSON to the operating system; a full disk leaves at most a torn last line."""
    left = memoryview(json.dumps(content).encode() + b"\n")
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as error:
        raise InputError(
            f"cannot write {file.name}: {error.strerror}; what is there is complete, and the same command resumes it"
        ) from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
