"""What is done to a part: carry points, predict pairs, or describe pictures.

Each holds the model's weights, not a `Matcher`, whose locks and caches belong to one process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.datasets.records import Pair
from mambamatcher.errors import InputError
from mambamatcher.evaluation.predict import predict_each
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.jobs.shards import write_lines
from mambamatcher.jobs.source import Item, pictures, require_parquet
from mambamatcher.matching.confidence import Calibration
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.tools.propagate import Reference, carry_each, read_each


@dataclass(frozen=True)
class Matching:
    """Work that needs a matcher, made once in each worker, where its model goes to `device` if there is one."""

    model: MambaMatcher
    calibration: Calibration
    device: str | None

    @cached_property
    def matcher(self) -> Matcher:
        """The worker's own matcher."""
        return Matcher(self.model, calibration=self.calibration, device=self.device)


@dataclass(frozen=True)
class Propagation(Matching):
    """Carry the references' points to pictures."""

    references: Sequence[Reference]
    suffix: str = ".jsonl"

    def write(self, items: Sequence[Item], path: Path) -> None:
        """Write one line a picture."""
        write_lines(path, carry_each(self.matcher, self.references, pictures(items)))


@dataclass(frozen=True)
class Prediction(Matching):
    """Predict the pairs of a benchmark."""

    name: str
    suffix: str = ".jsonl"

    def write(self, items: Sequence[Pair], path: Path) -> None:
        """Write one line a pair."""
        predictor = MatcherPredictor(self.name, self.matcher)
        write_lines(path, predict_each(predictor, items))


@dataclass(frozen=True)
class Description(Matching):
    """Compute pictures' features."""

    suffix: str = ".parquet"

    def write(self, items: Sequence[Item], path: Path) -> None:
        """Write one row a picture: its features, or why it has none."""
        parquet = require_parquet()
        import pyarrow

        schema = pyarrow.schema(
            {
                "image": pyarrow.string(),
                "width": pyarrow.int32(),
                "height": pyarrow.int32(),
                "shape": pyarrow.list_(pyarrow.int32()),
                "features": pyarrow.list_(pyarrow.float32()),
                "error": pyarrow.string(),
            }
        )
        # features hardly repeat, so looking for a dictionary of them would only take time
        with (
            path.open("wb") as file,  # pyarrow takes no names but UTF-8
            parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer,
        ):
            for row in self._rows(items):  # a row group each, so that a picture can be read without its neighbours
                writer.write_table(pyarrow.Table.from_pylist([row], schema))

    def _rows(self, items: Sequence[Item]) -> Iterator[dict[str, Any]]:
        for name, picture in read_each(self.matcher, pictures(items)):
            # Parquet's text is UTF-8, which a file name need not be
            row = {"image": name.encode("utf-8", "replace").decode("utf-8")}
            if isinstance(picture, InputError):
                yield {**row, "error": str(picture).encode("utf-8", "replace").decode("utf-8")}
                continue
            features = self.matcher.encode(picture)[0].cpu().numpy().astype(np.float32)
            self.matcher.evict(picture)
            width, height = picture.image.size
            yield {**row, "width": width, "height": height, "shape": features.shape, "features": features.ravel()}
