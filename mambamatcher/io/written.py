"""A record of the files a run has written, so that a file changed since is never replaced."""

import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b, file_digest
from pathlib import Path
from tempfile import TemporaryDirectory

from mambamatcher.errors import InputError
from mambamatcher.io.atomic import make_folder, move_files, parse_json, write_atomically, write_text_atomically

FILE = "written.json"
VERSION = 1


class WrittenFiles:
    """The files of a folder that were written by this program, by their digests in `written.json`.

    A digest is recorded before its file appears, beside that of the file it replaces: a kill at any moment leaves a
    file whose digest is known.

    Raises:
        InputError: The record is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._digests: dict[str, list[str]] = _read(folder / FILE)

    def has(self, name: str) -> bool:
        """Return whether the file has been written here, changed or not."""
        return name in self._digests

    @property
    def names(self) -> list[str]:
        """Names of all files that have been written here."""
        return list(self._digests)

    def is_changed(self, name: str) -> bool:
        """Return whether the file is there and is not as it was written."""
        path = self._folder / name
        return path.exists() and _digest_file(path) not in self._digests.get(name, [])

    def write(self, name: str, text: str, errors: str = "strict") -> None:
        """Write a text file, over the one that is there; see `write_text_atomically` for `errors`."""
        self.fill(name, lambda temporary: _fill(temporary, text.encode("utf-8", errors)))

    def fill(self, name: str, write: Callable[[Path], None]) -> None:
        """Let `write` fill a temporary file, and put it in place of the one that is there."""
        digests: list[str] = []

        def write_and_record(temporary: Path) -> None:
            write(temporary)
            digests.append(_digest_file(temporary))
            self._record({name: [*self._digests.get(name, []), *digests]})

        make_folder(self._folder)
        write_atomically(self._folder / name, write_and_record, overwrite=True)
        self._record({name: digests})

    def fill_folder(self, folder: str, write: Callable[[Path], None]) -> None:
        """Let `write` fill a temporary folder, and put its files in place of those that are there.

        Raises:
            InputError: A file that is there was not written by this program.
        """
        make_folder(self._folder)
        with TemporaryDirectory(dir=self._folder, prefix=f".{folder}-") as temporary:
            write(Path(temporary))
            files = {
                f"{folder}/{path.relative_to(temporary).as_posix()}": path
                for path in sorted(Path(temporary).rglob("*"))
                if path.is_file()
            }
            for name in files:
                if (self._folder / name).exists() and not self.has(name):
                    raise InputError(f"{self._folder / name} was not written by this program and is not replaced")
            digests = {name: _digest_file(path) for name, path in files.items()}
            self._record({name: [*self._digests.get(name, []), digest] for name, digest in digests.items()})
            move_files({path: self._folder / name for name, path in files.items()})
        self._record({name: [digest] for name, digest in digests.items()})

    def add(self, name: str) -> None:
        """Record a file as it is now."""
        self._record({name: [_digest_file(self._folder / name)]})

    def forget(self, names: Iterable[str]) -> None:
        """Drop files from the record, since they are about to grow or to be moved."""
        if known := [name for name in names if name in self._digests]:
            for name in known:
                del self._digests[name]
            self._record({})

    def _record(self, digests: Mapping[str, list[str]]) -> None:
        make_folder(self._folder)
        self._digests.update(digests)
        content = {"version": VERSION, "files": dict(sorted(self._digests.items()))}
        write_text_atomically(self._folder / FILE, json.dumps(content, indent=1) + "\n", overwrite=True)


def _read(path: Path) -> dict[str, list[str]]:
    try:
        content = parse_json(path.read_bytes())
        if content["version"] != VERSION:
            raise InputError(f"{path} is of version {content['version']!r:.20}, which this release does not know")
        return {str(name): [str(each) for each in digests] for name, digests in content["files"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(
            f"{path} is damaged, so what was changed in this folder cannot be told; use another folder"
        ) from error


def _fill(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _digest_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
