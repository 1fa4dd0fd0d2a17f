"""Run a predictor over pairs, each once, and save what it says."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from PIL import Image

from mambamatcher.datasets.decoding import ImageCache, read_image
from mambamatcher.datasets.records import Pair
from mambamatcher.errors import InputError
from mambamatcher.evaluation.predictions import Header, PredictionFile, record
from mambamatcher.jobs.progress import track

AHEAD = 4  # items decoded before they are asked for, so that a slow file does not hold up the model

Item = TypeVar("Item")
Ready = TypeVar("Ready")


@runtime_checkable
class Predictor(Protocol):
    """Anything that carries points from one picture to another, in original pixels."""

    name: str
    configuration: Mapping[str, Any]

    def predict_points(
        self, source: Image.Image, target: Image.Image, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the points in the target, `[keypoint, 2]`, and a confidence for each."""
        ...


def predict(
    predictor: Predictor, pairs: Sequence[Pair], path: Path, header: Header, *, overwrite: bool = False
) -> None:
    """Predict the pairs the file does not hold yet; the header must be that of the run that began the file."""
    require_different_names(pairs, header)
    with PredictionFile(path, header, overwrite) as file:
        left = [pair for pair in pairs if pair.name not in file.done]
        for line in track(predict_each(predictor, left), len(left), f"{header.dataset} {header.split}"):
            file.add(line)


def require_different_names(pairs: Sequence[Pair], header: Header) -> None:
    """Refuse pairs whose results could not be told apart."""
    if len({pair.name for pair in pairs}) < len(pairs):
        raise InputError(
            f"two pairs of {header.dataset} {header.split} have the same name; results could not be told apart"
        )


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


def read_ahead(read: Callable[[Item], Ready], items: Iterable[Item]) -> Iterator[Ready]:
    """Yield what `read` makes of each item; the next ones are read while the caller works on this one."""
    upcoming = iter(items)
    with ThreadPoolExecutor(max_workers=1) as pool:
        queue = deque(pool.submit(read, item) for item in islice(upcoming, AHEAD))
        while queue:
            ready = queue.popleft().result()
            queue.extend(pool.submit(read, item) for item in islice(upcoming, 1))
            yield ready
