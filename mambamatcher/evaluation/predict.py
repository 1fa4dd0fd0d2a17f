"""Run a predictor over pairs, or take predictions that were made elsewhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from mambamatcher.datasets.image_cache import ImageCache, read_image
from mambamatcher.datasets.records import Pair
from mambamatcher.errors import InputError
from mambamatcher.evaluation.predictions import record
from mambamatcher.jobs.source import read_ahead


@runtime_checkable
class Predictor(Protocol):
    """Anything that transfers points from one image to another, in original pixels."""

    name: str
    configuration: Mapping[str, Any]

    def predict_points(
        self, source: Image.Image, target: Image.Image, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the points in the target, `[keypoint, 2]`, and a confidence for each."""
        ...


def predict_each(predictor: Predictor, pairs: Iterable[Pair]) -> Iterator[dict[str, Any]]:
    """Yield the record of each pair, in order."""
    cache = ImageCache(read_image)

    def load(pair: Pair) -> tuple[Pair, Image.Image, Image.Image]:
        return pair, cache[pair.source], cache[pair.target]

    for pair, source, target in read_ahead(load, pairs):
        begun = perf_counter()
        predicted, confidence = predictor.predict_points(source, target, pair.points()[0])
        yield record(pair, np.asarray(predicted), np.asarray(confidence), perf_counter() - begun)


def complete(lines: Mapping[str, Mapping[str, Any]], pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Join predictions made elsewhere, by pair name, with the benchmark's annotations."""
    missing = [pair.name for pair in pairs if pair.name not in lines]
    if missing:
        raise InputError(f"{len(missing)} pairs have no prediction, the first is {missing[0]}")
    records = []
    for pair in pairs:
        line = lines[pair.name]
        try:
            # numpy reads a null as NaN, which counts as no answer
            predicted = np.array([point or (None, None) for point in line["predicted"]], dtype=np.float64)
            confidence = line.get("confidence")
            confidence = None if confidence is None else np.array(confidence, dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the prediction of {pair.name} is malformed: {error}") from error
        records.append(record(pair, predicted, confidence, line.get("seconds")))
    return records
