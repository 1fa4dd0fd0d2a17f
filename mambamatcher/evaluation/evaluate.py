"""A whole evaluation: read the pairs, predict them once, score and report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mambamatcher.datasets.benchmarks import DATASETS, Reading, read_pairs
from mambamatcher.datasets.records import fingerprint
from mambamatcher.errors import InputError
from mambamatcher.evaluation.gallery import write_gallery
from mambamatcher.evaluation.pck import ALPHAS
from mambamatcher.evaluation.predict import Predictor, complete, predict
from mambamatcher.evaluation.predictions import Header, Predictions, read_bare_predictions, read_predictions
from mambamatcher.evaluation.report import REPORTS, Report, make_report, write_report
from mambamatcher.evaluation.table import Protocol, make_table
from mambamatcher.io.atomic import remove_files

PREDICTIONS, GALLERY = "predictions.jsonl", "worst.html"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to evaluate on and where the results go."""

    dataset: str
    split: str
    output: Path
    root: Path | None = None
    limit: int | None = None
    alphas: Sequence[float] = ALPHAS
    skip_bad: bool = False
    overwrite: bool = False


def evaluate(predictor: Predictor, request: Request, predict: Callable[..., None] = predict) -> Report:
    """Predict what is not predicted yet, then score; the same request goes on after a stop.

    Another engine is another `predict`, called as the one of this package is.
    """
    path = request.output / PREDICTIONS
    reports = [request.output / name for name in (*REPORTS, GALLERY)]
    there = next((report for report in reports if report.exists()), None)
    if there and not path.exists() and not request.overwrite:  # an evaluation writes its predictions first
        raise InputError(f"{there} exists already; choose another folder or ask to overwrite it")
    reading = _read(request)
    header = _header(predictor.name, predictor.configuration, reading, request)
    if request.overwrite:
        remove_files(*reports)
    predict(predictor, reading.pairs[: request.limit], path, header, overwrite=request.overwrite)
    return _report(read_predictions(path), request)


def rescore(path: Path, request: Request) -> Report:
    """Score saved predictions again, or predictions made elsewhere, which are joined with the benchmark by pair."""
    lines = read_bare_predictions(path)
    if lines is None:
        saved = read_predictions(path)
        there, asked = (f"{each.dataset} {each.split}" for each in (saved.header, request))
        if there != asked:
            raise InputError(f"{path} holds predictions for {there}, not for {asked}")
        return _report(saved, request)
    reading = _read(request)
    header = _header(path.stem, {}, reading, request)
    return _report(Predictions(header, complete(lines, reading.pairs[: request.limit])), request)


def _read(request: Request) -> Reading:
    return read_pairs(request.dataset, request.split, request.root, skip_bad=request.skip_bad)


def _header(model: str, configuration: Mapping[str, Any], reading: Reading, request: Request) -> Header:
    """Describe the run; the whole split is described, so a limited run can be gone on with."""
    return Header(
        model=model,
        configuration=configuration,
        dataset=request.dataset,
        split=request.split,
        reference=DATASETS[request.dataset].reference,
        fingerprint=fingerprint(reading.pairs),
        pairs=len(reading.pairs),
        skipped=reading.skipped,
    )


def _report(predictions: Predictions, request: Request) -> Report:
    kept = Predictions(predictions.header, predictions.records[: request.limit])
    report = make_report(kept, request.alphas)
    write_report(report, request.output)
    headline = Protocol(report["headline"]["reference"], report["headline"]["scale"])
    write_gallery(request.output / GALLERY, make_table(kept.records), kept.records, headline)
    return report
