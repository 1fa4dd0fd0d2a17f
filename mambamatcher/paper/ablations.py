"""Train and evaluate the rows of a table. The result of a row is a file, and a finished row is never trained again."""

import csv
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Any

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.errors import InputError
from mambamatcher.evaluation.evaluate import Request, evaluate
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.evaluation.report import Report
from mambamatcher.io.atomic import make_folder, write_text_atomically
from mambamatcher.io.tensor_store import TensorStore
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.checkpoint import load_pretrained
from mambamatcher.model.config import to_dict
from mambamatcher.model.saved import CONFIG, SHIPPED
from mambamatcher.paper.initialisation import write_initial_model, write_untrained_levels
from mambamatcher.paper.trained_rows import Base, TrainedRow
from mambamatcher.training.callbacks import STATE_LOGITS
from mambamatcher.training.data_module import TrainingPairs
from mambamatcher.training.folder import MODEL, RECIPE
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.run import Hardware, train

ALPHAS = (0.05, 0.10, 0.15)
VALIDATION_PAIRS = 20  # only to see in the log that a row learns; no weights are selected by it
LEVELS = "levels"  # folder of the run that trains the features of all rows
CACHE_BYTES = 2 * 2**30  # of memory, enough for the features of all images of a split
Outcome = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """Settings that all rows of a table share.

    Attributes:
        base: Recipe and data.
        steps: Training steps of each row.
        results: Folder for the results of rows, one small file each.
        runs: Folder for checkpoints, logs and predictions.
        root: Folder with the benchmarks.
        limit: Evaluate only this many pairs.
    """

    base: Base
    steps: int
    results: Path
    runs: Path
    root: Path | None = None
    limit: int | None = None


def train_rows(rows: Sequence[TrainedRow], ablation: Ablation) -> None:
    """Train all rows that are not finished. Several processes may do so at once; each row is trained by one."""
    missing = [(row, seed) for row in rows for seed in range(row.seeds) if not _path(row, seed, ablation).exists()]
    if not missing:
        return
    pairs = TrainingPairs(
        train=read_pairs(*ablation.base.training, ablation.root, check_images=False).pairs,
        validation=read_pairs(*ablation.base.evaluations[0], ablation.root).pairs[:VALIDATION_PAIRS],
    )
    _train_levels(pairs, ablation)
    in_progress = [each for each in missing if not _train_row(*each, pairs, ablation, wait=False)]
    for row, seed in in_progress:
        _train_row(row, seed, pairs, ablation, wait=True)


def finished(row: TrainedRow, ablation: Ablation) -> list[Outcome]:
    """Return the outcomes of a row's finished seeds.

    Raises:
        InputError: If a row was made with other settings.
    """
    outcomes = []
    for path in filter(Path.exists, (_path(row, seed, ablation) for seed in range(row.seeds))):
        outcome = json.loads(path.read_text(encoding="utf-8"))
        expected = {"base": ablation.base.name, "steps": ablation.steps, "limit": ablation.limit}
        for key, value in expected.items():
            if outcome[key] != value:
                raise InputError(
                    f"{path} was made with {key} {outcome[key]}, not {value}; rows of one table need the same "
                    f"settings, so choose another --out or remove the file"
                )
        outcomes.append(outcome)
    return outcomes


def _path(row: TrainedRow, seed: int, ablation: Ablation) -> Path:
    return ablation.results / f"{row.key}-seed{seed}.json"


def _train_levels(pairs: TrainingPairs, ablation: Ablation) -> None:
    """Train the features that all rows of a base share, unless that is done."""
    base, folder = ablation.base, ablation.runs / LEVELS
    if base.levels is None:
        return
    assert base.shipped is not None
    folder.mkdir(parents=True, exist_ok=True)
    with _claim(folder / "lock", wait=True):
        if (folder / MODEL / CONFIG).exists():
            return
        initial, resume = folder / "initial", (folder / RECIPE).exists()
        if not resume:
            write_untrained_levels(base.levels.model, initial, SHIPPED[base.shipped], pairs.train)
        share_features(folder / "features", ablation.runs / "features")
        train(replace(base.levels, start=str(initial)), pairs, folder, Hardware(), resume=resume)


def _initial_model(ablation: Ablation) -> Path | None:
    """Return the folder of the model that rows are initialised from."""
    if ablation.base.levels is not None:
        return ablation.runs / LEVELS / MODEL
    return None if ablation.base.shipped is None else SHIPPED[ablation.base.shipped]


def _train_row(row: TrainedRow, seed: int, pairs: TrainingPairs, ablation: Ablation, *, wait: bool) -> bool:
    """Train a row unless it is finished. Return false if another process is training it and `wait` is false."""
    path, folder = _path(row, seed, ablation), ablation.runs / f"{row.key}-seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    with _claim(folder / "lock", wait) as claimed:
        if claimed and not path.exists():
            outcome = _train_and_evaluate(row, seed, pairs, folder, ablation)
            make_folder(path.parent)
            write_text_atomically(path, json.dumps(outcome) + "\n", overwrite=True)
    return claimed


@contextmanager
def _claim(path: Path, wait: bool) -> Iterator[bool]:
    """Hold a file lock, which the operating system releases when the process ends, even by a kill."""
    with path.open("w") as file:
        try:
            flock(file, LOCK_EX if wait else LOCK_EX | LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _train_and_evaluate(row: TrainedRow, seed: int, pairs: TrainingPairs, folder: Path, ablation: Ablation) -> Outcome:
    base, started = ablation.base, time.process_time()
    recipe = base.configured(row, seed, ablation.steps)
    trained_before = _initial_model(ablation)
    if trained_before is not None:
        initial = folder / "initial"
        recipe = replace(recipe, start=str(initial), freeze_features=base.trains_head_only(row))
        write_initial_model(
            recipe.model, initial, seed, trained_before, new_features=row.new_features, own_start=row.own_start
        )
    if recipe.cache_gigabytes:
        share_features(folder / "features", ablation.runs / "features")
    model = train(recipe, pairs, folder, Hardware(), resume=(folder / RECIPE).exists())
    trained = time.process_time()
    matcher = _matcher(model, recipe, ablation.runs / "features")
    reports = {}
    for dataset, split in base.evaluations:
        output = folder / f"{dataset}-{split}"
        request = Request(dataset=dataset, split=split, output=output, root=ablation.root, limit=ablation.limit)
        report = evaluate(MatcherPredictor(row.key, matcher), replace(request, alphas=ALPHAS))
        reports[f"{dataset} {split}"] = _summary(report)
    return {
        "row": row.key,
        "seed": seed,
        "base": base.name,
        "steps": ablation.steps,
        "limit": ablation.limit,
        "recipe": to_dict(replace(recipe, start=base.shipped and f"the shipped model {base.shipped}")),
        "state_logits": last_logged(folder, STATE_LOGITS),
        # only of the process that finished the row
        "cpu_seconds": {"training": trained - started, "evaluation": time.process_time() - trained},
        "evaluations": reports,
    }


def last_logged(folder: Path, name: str) -> float | None:
    """Return the last value of a metric of a run, if it was logged."""
    values = []
    for path in sorted((folder / "csv").glob("version_*/metrics.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            values += [float(line[name]) for line in csv.DictReader(file) if line.get(name)]
    return values[-1] if values else None


def share_features(own: Path, shared: Path) -> None:
    """Point a run's feature cache to the shared one: all runs have the same frozen backbone."""
    shared.mkdir(exist_ok=True)
    if not own.exists():
        own.symlink_to(shared.resolve(), target_is_directory=True)


def _matcher(folder: Path, recipe: Recipe, features: Path) -> Matcher:
    model = load_pretrained(folder)
    if recipe.cache_gigabytes:
        model.backbone.keep_levels(TensorStore(folder=features, disk_bytes=int(recipe.cache_gigabytes * 1e9)))
    return Matcher(model, cache_bytes=CACHE_BYTES)


def _summary(report: Report) -> dict[str, Any]:
    """Return the scores that the table shows, and the number of correct keypoints of each pair at each alpha."""
    headline = report["scores"][0]
    errors = [pair["errors"] for pair in report["errors"].values()]
    correct = [[sum(e is not None and e <= alpha for e in pair) for alpha in ALPHAS] for pair in errors]
    return {
        "protocol": f"alpha_{headline['reference']}, {headline['scale']}, per image",
        "fingerprint": report["fingerprint"],
        "pairs": report["pairs"],
        "values": headline["values"],
        "keypoints": [len(pair) for pair in errors],
        "right": correct,
    }
