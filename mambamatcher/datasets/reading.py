"""Read the files of a release. Every problem is an `InputError` that names the file."""

import csv
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.datasets.faults import naming
from mambamatcher.datasets.matlab import read_arrays
from mambamatcher.errors import InputError
from mambamatcher.io.atomic import parse_json

ROOT_VARIABLE = "MAMBAMATCHER_DATA"


def data_root(root: Path | None) -> Path:
    """Return the folder with the benchmarks: the given one, or the one in `MAMBAMATCHER_DATA`."""
    chosen = root or os.environ.get(ROOT_VARIABLE)
    if not chosen:
        raise InputError(f"no data folder was given; use --root or set {ROOT_VARIABLE}")
    folder = Path(chosen).expanduser().absolute()  # workers may run in another folder
    if not os.path.isdir(folder):
        raise InputError(f"the data folder {folder} does not exist")
    return folder


def locate(root: Path, *names: str) -> Path:
    """Return the folder of a benchmark: one of `names` under the root, or the root itself."""
    return next((root / name for name in names if (root / name).is_dir()), root)


def first_existing(*candidates: Path) -> Path:
    """Return the first path that exists. If none does, raise an `InputError` that names the first."""
    for path in candidates:
        if os.path.exists(path):  # unlike Path.exists, does not raise for names that no file can have
            return path
    raise InputError(f"{candidates[0]} is missing")


def read_text(path: Path) -> str:
    """Read a text file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text: {error.reason} at byte {error.start}") from error
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    text = read_text(path)  # its error is a ValueError too
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a CSV file with a header. A row with too few or too many cells is malformed."""
    with naming(path):
        reader = csv.DictReader(read_text(path).splitlines())
        rows = list(reader)
    repeated = [name for name, count in Counter(reader.fieldnames or ()).items() if count > 1]
    if repeated:
        raise InputError(f"{path}: the column {repeated[0]!r} appears more than once")
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise InputError(f"{path}: line {number} does not have the columns of the header")
    return rows


def read_mat(path: Path, *names: str) -> list[np.ndarray]:
    """Read the named arrays of a MATLAB file as floats."""
    if not os.path.exists(path):
        raise InputError(f"{path} is missing")
    try:
        content = read_arrays(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not a MATLAB file: {error}") from error
    with naming(path):
        return [content[name] for name in names]
