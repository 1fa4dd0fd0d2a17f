"""Points as DeepLabCut's HDF5 files, which hold the table of its CSV as pandas stores it; needs pandas and PyTables.

A process of its own reads a file, since the library of HDF5 crashes on some damaged ones.
"""

import json
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.checks import first_line
from mambamatcher.io.decoding_worker import start_process
from mambamatcher.io.points.annotations import Annotations, Settings
from mambamatcher.io.points.deeplabcut_format import Table, from_table, to_table
from mambamatcher.io.points.formats import FORMATS, Format

KEY = "df_with_missing"  # what DeepLabCut calls the table


def read_h5(path: Path) -> Annotations:
    """Read labels of images, or predictions for the frames of a video."""
    process = start_process(serve_table)
    line, _, values = process.communicate(json.dumps(str(path.absolute())).encode() + b"\n")[0].partition(b"\n")
    if process.returncode:
        raise InputError("it is damaged: its reader crashed")
    answer = json.loads(line)
    if "error" in answer:
        raise InputError(answer["error"])
    columns = [(individual, point, coordinate) for individual, point, coordinate in answer["columns"]]
    rows = np.frombuffer(values).reshape(len(answer["keys"]), len(columns))
    return from_table(Table(columns, zip(answer["keys"], rows, strict=True)), path.stem)


def serve_table() -> None:
    """Answer a path on standard input with a line of JSON, and the values of the table: what the process runs."""
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    path = Path(json.loads(sys.stdin.buffer.readline()))
    try:
        columns, keys, values = _read_table(path)
        answer, content = {"columns": columns, "keys": keys}, values.tobytes()
    except InputError as error:
        answer, content = {"error": str(error)}, b""
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + content)


def _read_table(path: Path) -> tuple[list[tuple[str, ...]], list[str], np.ndarray]:
    """Return the columns as `Table` has them, the keys of the rows and the values."""
    import pandas

    with data_alone():
        try:
            frame = pandas.read_hdf(path)
        except Exception as error:  # whatever pandas and PyTables raise for a damaged file
            raise InputError(f"it is no table of DeepLabCut, or damaged: {first_line(error)}") from error
    if not isinstance(frame, pandas.DataFrame) or frame.columns.nlevels not in (3, 4):
        raise InputError("it is no table of DeepLabCut: its columns must have scorer, bodyparts and coords")
    columns = [tuple(map(str, each[1:])) for each in frame.columns]
    named = [each if len(each) == 3 else ("", *each) for each in columns]
    keys = ["/".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in frame.index]
    try:
        return named, keys, np.ascontiguousarray(frame.to_numpy(dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"its places must be numbers: {first_line(error)}") from error


def write_h5(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write a table with the key that DeepLabCut reads; images are indexed by folder and name as it does."""
    import pandas

    table = to_table(annotations)
    keys, values = zip(*table.rows, strict=True)
    has_individuals = any(individual for individual, _, _ in table.columns)
    columns = [(settings.scorer, *(each if has_individuals else each[1:])) for each in table.columns]
    levels = ["scorer", *(["individuals"] if has_individuals else []), "bodyparts", "coords"]
    index = (
        pandas.Index([int(key) for key in keys])
        if all(key.isdigit() for key in keys)
        else pandas.MultiIndex.from_tuples([tuple(key.split("/")) for key in keys])
    )
    frame = pandas.DataFrame(
        np.array(values, dtype=np.float64),
        index=index,
        columns=pandas.MultiIndex.from_tuples(columns, names=levels),
    )
    frame.to_hdf(path, key=KEY, mode="w")


@contextmanager
def data_alone() -> Iterator[None]:
    """Let PyTables read pickles that hold only data. It unpickles attributes of a file, which could run any code."""
    import tables.atom
    import tables.attributeset

    modules: tuple[Any, ...] = (tables.atom, tables.attributeset)
    restricted = SimpleNamespace(**{**vars(pickle), "loads": _load_data})
    if any(module.pickle is not pickle for module in modules):
        raise InputError("this release of PyTables unpickles in a way that is not known; use a CSV file")
    try:
        for module in modules:
            module.pickle = restricted
        yield
    finally:
        for module in modules:
            module.pickle = pickle


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it holds an object of {module}.{name}, which is not read")


def _load_data(content: bytes, **options: Any) -> Any:
    return _DataUnpickler(BytesIO(content), **options).load()


FORMATS.register("deeplabcut-h5")(
    Format(
        title="DeepLabCut's HDF5",
        file="CollectedData_{scorer}.h5",
        starts=lambda path, opening: opening.startswith(b"\x89HDF") and path.suffix.lower() != ".slp",
        read=read_h5,
        write=write_h5,
        needs=("pandas", "tables"),
    )
)
