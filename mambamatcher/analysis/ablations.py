"""Training the rows of a table one after the other; a finished row is a file, and is never trained again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from mambamatcher.analysis.beginnings import write_beginning
from mambamatcher.analysis.results import MEASURED, Cell, Row, write_text
from mambamatcher.analysis.trained_rows import Base, TrainedRow
from mambamatcher.config import to_dict
from mambamatcher.data.benchmarks import read_pairs
from mambamatcher.errors import InputError
from mambamatcher.evaluation.compare import RESAMPLES, sign_flip_test
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.evaluation.report import Report
from mambamatcher.evaluation.run import Request, evaluate
from mambamatcher.evaluation.score import bootstrap_weights
from mambamatcher.matcher import Matcher
from mambamatcher.training.data import TrainingPairs
from mambamatcher.training.run import Hardware, train

ALPHAS = (0.05, 0.10, 0.15)
VALIDATION_PAIRS = 20  # only to see in the log that a row learns; nothing is chosen by it
Outcome = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """Where and for how long rows are trained: results are small and kept, runs hold checkpoints and logs."""

    base: Base
    steps: int
    results: Path
    runs: Path
    root: Path | None = None
    limit: int | None = None  # of evaluated pairs


def run_rows(rows: Sequence[TrainedRow], ablation: Ablation) -> list[list[Outcome]]:
    """Return each row's outcomes, one a seed; those that are not there yet are trained."""
    return [[_outcome(row, seed, ablation) for seed in range(row.seeds)] for row in rows]


def _outcome(row: TrainedRow, seed: int, ablation: Ablation) -> Outcome:
    path = ablation.results / f"{row.key}-seed{seed}.json"
    if path.exists():
        outcome = json.loads(path.read_text(encoding="utf-8"))
        asked = {"base": ablation.base.name, "steps": ablation.steps, "limit": ablation.limit}
        for key, value in asked.items():
            if outcome[key] != value:
                raise InputError(
                    f"{path} was made with {key} {outcome[key]}, not {value}; rows of one table must be alike: "
                    f"choose another --out or remove the file"
                )
        return outcome
    outcome = _train_and_evaluate(row, seed, ablation)
    write_text(path, json.dumps(outcome) + "\n")
    return outcome


def _train_and_evaluate(row: TrainedRow, seed: int, ablation: Ablation) -> Outcome:
    base, folder = ablation.base, ablation.runs / f"{row.key}-seed{seed}"
    recipe = base.configured(row, seed, ablation.steps)
    if base.embedded:
        recipe = replace(recipe, start=str(folder / "beginning"))
        if not (folder / "beginning").exists():
            write_beginning(recipe.model, folder / "beginning", seed, new_features=row.new_features)
    pairs = TrainingPairs(
        train=read_pairs(*base.training, ablation.root).pairs,
        validation=read_pairs(*base.evaluations[0], ablation.root).pairs[:VALIDATION_PAIRS],
    )
    begun = (folder / "recipe.json").exists()
    matcher = Matcher.from_pretrained(train(recipe, pairs, folder, Hardware(), resume=begun))
    predictor = MatcherPredictor(row.key, matcher)
    reports = {}
    for dataset, split in base.evaluations:
        output = folder / f"{dataset}-{split}"
        request = Request(dataset=dataset, split=split, output=output, root=ablation.root, limit=ablation.limit)
        reports[f"{dataset} {split}"] = _kept(evaluate(predictor, replace(request, alphas=ALPHAS)))
    return {
        "row": row.key,
        "seed": seed,
        "base": base.name,
        "steps": ablation.steps,
        "limit": ablation.limit,
        "recipe": to_dict(replace(recipe, start="the embedded model" if base.embedded else None)),
        "evaluations": reports,
    }


def _kept(report: Report) -> dict[str, Any]:
    """Keep of a report what the table shows, and of each pair how many keypoints are right at each alpha."""
    headline = report["scores"][0]
    errors = [pair["errors"] for pair in report["errors"].values()]
    right = [[sum(e is not None and e <= alpha for e in pair) for alpha in ALPHAS] for pair in errors]
    return {
        "protocol": f"alpha_{headline['reference']}, {headline['scale']}, per image",
        "fingerprint": report["fingerprint"],
        "pairs": report["pairs"],
        "values": headline["values"],
        "keypoints": [len(pair) for pair in errors],
        "right": right,
    }


def outcome_rows(row: TrainedRow, outcomes: Sequence[Outcome]) -> list[Row]:
    """Return a line for each evaluation: the mean over seeds, with an interval over pairs."""
    lines = []
    for where, first in outcomes[0]["evaluations"].items():
        shares = pair_shares(outcomes, where)
        low, high = np.quantile(_resampled(shares), [0.025, 0.975], axis=0)
        cells = tuple(
            Cell(value=100 * value, low=100 * bottom, high=100 * top)
            for value, bottom, top in zip(shares.mean(axis=0), low, high, strict=True)
        )
        spread = [100 * mean(pair_shares([each], where)[:, 1]) for each in outcomes]
        seeds = "1 seed" if len(outcomes) == 1 else f"seeds {', '.join(f'{value:.1f}' for value in spread)} at 0.10"
        protocol = f"{where}, {first['protocol']}, {first['pairs']} pairs; {outcomes[0]['steps']} steps, {seeds}"
        lines.append(Row(name=f"{row.paper} ({where})", origin=MEASURED, protocol=protocol, cells=cells))
    return lines


def pair_shares(outcomes: Sequence[Outcome], where: str) -> np.ndarray:
    """Return each pair's share of right keypoints, `[pair, alpha]`, averaged over seeds."""
    found = [each["evaluations"][where] for each in outcomes]
    return np.mean([np.array(each["right"]) / np.array(each["keypoints"])[:, None] for each in found], axis=0)


def difference_line(first: tuple[str, np.ndarray], second: tuple[str, np.ndarray], where: str) -> str:
    """Say how much more the second row gets right than the first at 0.10, pair by pair, and how sure that is."""
    change = (second[1] - first[1])[:, 1:2]
    low, high = 100 * np.quantile(_resampled(change), [0.025, 0.975])
    p = sign_flip_test(change, RESAMPLES, 0)[0]
    return (
        f"{where}: {second[0]} against {first[0]}: {100 * change.mean():+.2f} points of PCK@0.10 "
        f"(95 % interval {low:+.2f} to {high:+.2f} over pairs, p = {p:.2g})."
    )


def _resampled(values: np.ndarray) -> np.ndarray:
    return bootstrap_weights(len(values), RESAMPLES, 0).numpy() @ values / len(values)
