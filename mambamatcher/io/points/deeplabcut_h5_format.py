"""Points as DeepLabCut's HDF5 files, which hold the table of its CSV as pandas stores it; needs pandas and PyTables."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.checks import first_line
from mambamatcher.io.points.annotations import Annotations, Settings
from mambamatcher.io.points.deeplabcut_format import Table, from_table, to_table
from mambamatcher.io.points.formats import FORMATS, Format

KEY = "df_with_missing"  # what DeepLabCut calls the table


def read_h5(path: Path) -> Annotations:
    """Read labels of images, or predictions for the frames of a video."""
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
    keys = ("/".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in frame.index)
    values = frame.to_numpy(dtype=np.float64)
    return from_table(Table(named, zip(keys, values, strict=True)), path.stem)  # type: ignore[arg-type]


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
