"""The file of predictions: a header line, then one JSON line per pair with all that any protocol needs to score it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.datasets.faults import check_kind, check_number, check_numbers, naming
from mambamatcher.datasets.reading import read_text
from mambamatcher.datasets.records import AnnotatedImage, Pair, has_side, mirror_name
from mambamatcher.errors import InputError
from mambamatcher.io.atomic import parse_json
from mambamatcher.io.decoding import MAX_SIDE

FORMAT = "mambamatcher-predictions"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Header:
    """What made the predictions and on what; a run resumes only in a file with the same header."""

    model: str
    configuration: Mapping[str, Any]
    dataset: str
    split: str
    reference: str
    fingerprint: str
    pairs: int
    skipped: list[str] = field(default_factory=list)
    direction: str = "source to target"
    format: str = FORMAT
    version: int = VERSION


@dataclass(frozen=True)
class Predictions:
    """A header and the records of the pairs predicted so far."""

    header: Header
    records: list[dict[str, Any]]


def record(pair: Pair, predicted: np.ndarray, confidence: np.ndarray | None, seconds: float | None) -> dict[str, Any]:
    """Put everything about one predicted pair into plain values; a point that is not finite becomes null."""
    source, target = pair.points()
    if predicted.shape != target.shape:
        raise InputError(
            f"{pair.name}: {len(target)} points were asked for, the prediction has shape {predicted.shape}"
        )
    if confidence is not None and confidence.shape != (len(target),):
        raise InputError(f"{pair.name}: confidence must hold {len(target)} numbers, its shape is {confidence.shape}")
    return {
        "pair": pair.name,
        "category": pair.category,
        "names": list(pair.names),
        "source": _image(pair.source),
        "target": _image(pair.target),
        "source_points": _rounded(source),
        "target_points": _rounded(target),
        "predicted": [point if np.isfinite(point).all() else None for point in _rounded(predicted)],
        "confidence": None if confidence is None else [round(float(value), 6) for value in np.nan_to_num(confidence)],
        "mirrored_points": [_mirrored(name, pair.target) for name in pair.names],
        "variation": dict(pair.variation),
        "seconds": None if seconds is None else round(seconds, 6),
    }


def read_predictions(path: Path) -> Predictions:
    """Read a complete or unfinished file of predictions; a truncated last line is dropped."""
    lines = [line for line in read_text(path).splitlines(keepends=True) if line.endswith("\n")]
    if not lines:
        raise InputError(f"{path} holds no predictions")
    return Predictions(_header(path, lines[0]), list(check_records(path, _records(path, lines[1:]))))


def read_bare_predictions(path: Path) -> dict[str, dict[str, Any]] | None:
    """Read the lines others write, `{"pair": ..., "predicted": ...}`; None if the file has our own header."""
    lines = list(_records(path, read_text(path).splitlines()))
    if lines and lines[0].get("format") == FORMAT:
        return None
    with naming(path):
        return {line["pair"]: line for line in lines}


def _header(path: Path, line: str) -> Header:
    content = next(_records(path, [line]))
    if content.get("format") != FORMAT or content.get("version") != VERSION:
        raise InputError(f"{path} does not start with a {FORMAT} header of version {VERSION}")
    with naming(path):
        return Header(**content)


def _records(path: Path, lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_json(line)
        except ValueError as error:
            raise InputError(f"{path}: entry {number} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}: entry {number} is not a prediction: {line.strip()[:60]}")
        yield record


def check_records(path: Path, records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield records that are as `record` makes them, and refuse the first that is not."""
    for number, record in enumerate(records, start=1):
        with naming(f"{path}: prediction {number}"):
            for key in ("pair", "category"):
                check_kind(record[key], str, key)
            names = [check_kind(name, str, "a name") for name in check_kind(record["names"], list, "names")]
            for key in ("source_points", "target_points", "predicted", "mirrored_points"):
                points = check_kind(record[key], list, key)
                if len(points) != len(names):
                    raise InputError(f"{key} has {len(points)} points for {len(names)} names")
                for point in points:
                    if point is not None or key in ("source_points", "target_points"):
                        check_numbers(point, 2, key)
            for key in ("source", "target"):
                check_kind(record[key]["path"], str, "path")
                check_numbers(record[key]["size"], 2, "size")
                if not all(1 <= side <= MAX_SIDE for side in record[key]["size"]):
                    raise InputError(f"no image has the size {record[key]['size']}")
                if record[key]["bbox"] is not None:
                    check_numbers(record[key]["bbox"], 4, "bbox")
            if record["confidence"] is not None:
                check_numbers(record["confidence"], len(names), "confidence")
            if record["seconds"] is not None:
                check_number(record["seconds"])
            for grade in check_kind(record["variation"], dict, "variation").values():
                check_number(grade)
        yield record


def _image(image: AnnotatedImage) -> dict[str, Any]:
    return {
        "path": str(image.path.absolute()),
        "size": list(image.size),
        "bbox": image.bbox and list(image.bbox),
        "flip": image.flip,
    }


def _mirrored(name: str, target: AnnotatedImage) -> list[float] | None:
    """Return where the keypoint's counterpart on the other side is, if the target shows it."""
    point = target.keypoints.get(mirror_name(name)) if has_side(name) else None
    return None if point is None else [round(value, 4) for value in point]


def _rounded(points: np.ndarray) -> list[list[float]]:
    return np.round(np.asarray(points, dtype=np.float64), 4).tolist()
