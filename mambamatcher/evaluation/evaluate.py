"""A whole evaluation: read the pairs, predict them once, score and report."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.datasets.benchmarks import Reading, find_dataset, read_pairs
from mambamatcher.datasets.records import Pair, fingerprint
from mambamatcher.errors import InputError
from mambamatcher.evaluation.gallery import write_gallery
from mambamatcher.evaluation.pck import ALPHAS
from mambamatcher.evaluation.predict import Predictor, complete, predict_each
from mambamatcher.evaluation.predictions import (
    Header,
    Predictions,
    check_records,
    read_bare_predictions,
    read_predictions,
)
from mambamatcher.evaluation.report import REPORTS, Report, make_report, write_report
from mambamatcher.evaluation.table import Protocol, make_table
from mambamatcher.io.atomic import make_folder, refuse_existing
from mambamatcher.jobs.engines import LOCAL, Engine
from mambamatcher.jobs.job import Job, run

SAMPLE_SEED = 0
PREDICTIONS, GALLERY = "predictions.jsonl", "worst.html"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to evaluate on and where the results go; `dataset` is a benchmark's name or a file of annotated images."""

    dataset: str
    split: str
    output: Path
    root: Path | None = None
    limit: int | None = None  # the first pairs
    sample: int | None = None  # pairs spread over the categories
    alphas: Sequence[float] = ALPHAS
    skip_bad: bool = False
    overwrite: bool = False
    split_seed: int = 0  # of a file of annotated images


def evaluate(predictor: Predictor, request: Request, engine: Engine = LOCAL) -> Report:
    """Predict what is not predicted yet, then score; the same request resumes after a stop.

    Args:
        predictor: Finds the points; on another engine than this process it must be picklable.
        request: What to evaluate on.
        engine: Where pairs are predicted.

    Returns:
        The report, which is also written beside the predictions.
    """
    reading = _read(request)
    header = _header(predictor.name, predictor.configuration, reading, request)
    return run(evaluation_job(predictor, reading.pairs, header, request), engine, request.overwrite)


def evaluation_job(predictor: Predictor, pairs: Sequence[Pair], header: Header, request: Request) -> Job[Report]:
    """Return the job that predicts pairs into the file of predictions and reports on it."""
    path = request.output / PREDICTIONS
    chosen = [pairs[index] for index in _chosen_of(pairs, request)]
    return Job(
        label=f"{header.dataset} {header.split}",
        inputs=chosen,
        header=asdict(header),
        journal=path,
        key="pair",
        work=partial(predict_each, predictor),
        # what is scored is what was saved
        finish=lambda _: _report(read_predictions(path), request, {pair.name for pair in chosen}),
        products=_reports(request),
        check=partial(check_records, path),
    )


def rescore(path: Path, request: Request) -> Report:
    """Score saved predictions again, or predictions made elsewhere, which are joined with the benchmark by pair.

    Raises:
        InputError: The predictions cannot be used, or there are reports already and overwriting was not requested.
    """
    make_folder(request.output)
    for report in _reports(request):
        refuse_existing(report, request.overwrite)
    lines = read_bare_predictions(path)
    if lines is None:
        saved = read_predictions(path)
        there, asked = (f"{each.dataset} {each.split}" for each in (saved.header, request))
        if there != asked:
            raise InputError(f"{path} holds predictions for {there}, not for {asked}")
        kept = _chosen([record["category"] for record in saved.records], request)
        return _report(saved, request, {saved.records[index]["pair"] for index in kept})
    reading = _read(request)
    header = _header(path.stem, {}, reading, request)
    records = complete(lines, [reading.pairs[index] for index in _chosen_of(reading.pairs, request)])
    return _report(Predictions(header, records), request, {record["pair"] for record in records})


def _reports(request: Request) -> list[Path]:
    return [request.output / name for name in (*REPORTS, GALLERY)]


def _read(request: Request) -> Reading:
    return read_pairs(
        request.dataset, request.split, request.root, skip_bad=request.skip_bad, split_seed=request.split_seed
    )


def _header(model: str, configuration: Mapping[str, Any], reading: Reading, request: Request) -> Header:
    """Describe the run; the whole split is described, so a limited run can be resumed with a higher limit."""
    return Header(
        model=model,
        configuration=configuration,
        dataset=request.dataset,
        split=request.split,
        reference=find_dataset(request.dataset).reference,
        fingerprint=fingerprint(reading.pairs),
        pairs=len(reading.pairs),
        skipped=reading.skipped,
    )


def _chosen_of(pairs: Sequence[Pair], request: Request) -> list[int]:
    """Return which of all pairs of a split a request is about, reading only these unless it is a sample."""
    if request.sample is None:
        return list(range(len(pairs))[: request.limit])
    return _chosen([pair.category for pair in pairs], request)


def _chosen(categories: Sequence[str], request: Request) -> list[int]:
    """Return which pairs a request is about, in order; a larger sample contains every smaller one."""
    kept = range(len(categories))[: request.limit]
    if request.sample is None or request.sample >= len(kept):
        return list(kept)
    order = np.random.default_rng(SAMPLE_SEED).permutation(len(categories))
    groups: dict[str, list[int]] = {name: [] for name in sorted(set(categories))}
    for index in order.tolist():
        if index in kept:
            groups[categories[index]].append(index)
    taken = [index for turn in zip_longest(*groups.values()) for index in turn if index is not None]
    return sorted(taken[: request.sample])


def _report(predictions: Predictions, request: Request, names: Collection[str]) -> Report:
    kept = Predictions(predictions.header, [each for each in predictions.records if each["pair"] in names])
    report = make_report(kept, request.alphas)
    write_report(report, request.output)
    headline = Protocol(report["headline"]["reference"], report["headline"]["scale"])
    write_gallery(request.output / GALLERY, make_table(kept.records), kept.records, headline)
    return report
