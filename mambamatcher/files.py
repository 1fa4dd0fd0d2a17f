"""Writing files whole or not at all, and never over a user's own."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

from mambamatcher.errors import InputError


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Stop before any work is done if the result could not be written."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already; choose another name or ask to overwrite it")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} into; create it first")


def write_atomically(path: Path, write: Callable[[Path], None], overwrite: bool = False) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step."""
    refuse_existing(path, overwrite)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix, delete=False) as handle:
        temporary = Path(handle.name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
