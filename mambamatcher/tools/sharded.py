"""`propagate`, `evaluate` and `features` in parts, on any engine."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from mambamatcher.datasets.records import Pair
from mambamatcher.errors import InputError
from mambamatcher.evaluation.predict import require_different_names
from mambamatcher.evaluation.predictions import Header
from mambamatcher.evaluation.predictors import MatcherPredictor, weights_hash
from mambamatcher.io.atomic import remove_files, write_atomically
from mambamatcher.jobs.engines import Engine, run_missing
from mambamatcher.jobs.shards import FOLDER, RUN, Part, plan, read_lines, write_lines
from mambamatcher.jobs.source import Source, require_parquet
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.config import to_dict
from mambamatcher.tools.propagate import (
    FORMATS,
    RESULTS,
    Reference,
    Summary,
    describe_run,
    refuse_formats,
    summarise,
    write_formats,
)
from mambamatcher.tools.shard_work import Description, Prediction, Propagation

GATHERED = 100_000  # results up to so many are also written as one file; beyond, the parts are the result


@dataclass(frozen=True, kw_only=True)
class Described:
    """How an extraction of features ended."""

    pictures: int
    unreadable: int


def propagate(
    engine: Engine, matcher: Matcher, references: Sequence[Reference], source: Source, out: Path, overwrite: bool
) -> Summary:
    """Carry points to every picture of a source; up to `GATHERED`, the files are those of the local propagation."""
    header = describe_run(matcher, references, source.origin)
    if not (out / FOLDER / RUN).exists():
        refuse_formats(out, overwrite)
    _refuse_others(out / RESULTS, header, len(source.items), overwrite)
    if overwrite:
        remove_files(out / RESULTS, *(out / name for name in FORMATS))
    work = Propagation(matcher.model, matcher.calibration, engine.device, references)
    names = [item.name for item in source.items]
    parts = plan(out, work.suffix, header, source.items, names, overwrite)
    run_missing(engine, work, parts, "targets")
    if len(names) <= GATHERED:
        _gather(out / RESULTS, header, parts)
        write_formats(out, source.find, list(read_lines(parts)))
    return summarise(read_lines(parts))


def predict_with(engine: Engine) -> Callable[..., None]:
    """Return a `predict` for an evaluation that runs on this engine."""

    def predict(
        predictor: MatcherPredictor, pairs: Sequence[Pair], path: Path, header: Header, *, overwrite: bool = False
    ) -> None:
        _refuse_others(path, asdict(header), len(pairs), overwrite)
        if overwrite:
            remove_files(path)
        matcher = predictor.matcher
        work = Prediction(matcher.model, matcher.calibration, engine.device, predictor.name)
        require_different_names(pairs, header)
        parts = plan(path.parent, work.suffix, asdict(header), pairs, [pair.name for pair in pairs], overwrite)
        run_missing(engine, work, parts, "pairs")
        _gather(path, asdict(header), parts)

    return predict


def extract_features(engine: Engine, matcher: Matcher, source: Source, out: Path, overwrite: bool) -> Described:
    """Write the features of every picture as a folder of Parquet files."""
    parquet = require_parquet()
    header = {
        "model": {**to_dict(matcher.config), "weights": weights_hash(matcher.model)},
        "source": str(source.origin),
    }
    work = Description(matcher.model, matcher.calibration, engine.device)
    names = [item.name for item in source.items]
    parts = plan(out, work.suffix, header, source.items, names, overwrite)
    run_missing(engine, work, parts, "pictures")
    return Described(pictures=len(names), unreadable=sum(_unreadable(part, parquet) for part in parts))


def _unreadable(part: Part, parquet: Any) -> int:
    """Count the pictures of a part that have no features."""
    try:
        with part.path.open("rb") as file:
            errors = parquet.read_table(file, columns=["error"])["error"]
    except (OSError, ValueError):
        errors = []
    part.check(len(errors))
    return len(errors) - errors.null_count


def _refuse_others(results: Path, header: Mapping[str, Any], inputs: int, overwrite: bool) -> None:
    """Stop where results are that were not made in parts, by another run, or of more inputs than these."""
    if not results.exists() or overwrite:
        return
    if not (results.parent / FOLDER / RUN).exists():
        raise InputError(
            f"{results} was begun by the local engine; go on with that, use another folder or overwrite it"
        )
    with results.open(encoding="utf-8", errors="replace") as file:
        if file.readline() != json.dumps(header) + "\n":
            raise InputError(f"{results} was written by another run; use another folder or overwrite it")
        if (held := sum(1 for _ in file)) > inputs:
            raise InputError(f"{results} holds {held} results, more than the {inputs} asked for; use another folder")


def _gather(path: Path, header: dict[str, Any], parts: Sequence[Part]) -> None:
    """Put the parts together as the file the local engine writes."""
    lines: Iterator[dict[str, Any]] = chain([header], read_lines(parts))
    write_atomically(path, lambda temporary: write_lines(temporary, lines), overwrite=True)
