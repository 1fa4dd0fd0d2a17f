"""Choose the learning rate of each head of the league: the best of three after a short training.

    python -m benchmarks.league_rates --root data --save benchmarks/results/peers

The features that `mambamatcher reproduce league` trains first must exist in `--runs`. PCK is measured on selection
pairs behind those that the league measures. Rows that are in the file already are kept, so a stopped run continues.
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.io.atomic import write_text_atomically
from mambamatcher.paper.ablations import LEVELS, last_logged, share_features
from mambamatcher.paper.initialisation import write_initial_model
from mambamatcher.paper.trained_rows import LEAGUE, TrainedRow, vit_s_base
from mambamatcher.training.data_module import TrainingPairs
from mambamatcher.training.folder import MODEL
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.run import Hardware, train

RATES = (1e-2, 1e-3, 1e-4)
STEPS = 120
MEASURED = 1_000  # selection pairs of the league
PAIRS = 40


def main() -> None:
    """Train every head at every rate, and write what it reaches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="folder with the benchmarks")
    parser.add_argument("--runs", type=Path, default=Path("runs/reproduce"))
    parser.add_argument("--save", type=Path, required=True, help="folder for league-rates-STEPS.json")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rates", type=float, nargs="*", default=RATES)
    parser.add_argument("--rows", nargs="*", default=[row.key for row in LEAGUE])
    arguments = parser.parse_args()
    base, runs = vit_s_base(), arguments.runs / "vit-s"
    pairs = TrainingPairs(
        train=read_pairs(*base.training, arguments.root, check_images=False).pairs,
        validation=read_pairs(*base.evaluations[0], arguments.root).pairs[MEASURED : MEASURED + PAIRS],
    )
    path = arguments.save / f"league-rates-{arguments.steps}.json"
    for row in (row for row in LEAGUE if row.key in arguments.rows):
        for rate in arguments.rates:
            if f"{rate:g}" not in read(path).get(row.key, {}):
                recipe = replace(base.configured(row, 0, arguments.steps), learning_rate=rate)
                reached = short_run(replace(recipe, correlation_learning_rate=rate), row, pairs, runs)
                scores = read(path)
                scores.setdefault(row.key, {})[f"{rate:g}"] = reached
                made = {"steps": arguments.steps, "pairs": PAIRS, "pck": scores, **asdict(circumstances())}
                text = json.dumps(made, indent=1) + "\n"
                write_text_atomically(path, text, overwrite=True)
                print(row.key, f"{rate:g}", f"{reached:.1f}", flush=True)


def read(path: Path) -> dict[str, dict[str, float]]:
    """Return the scores by row and rate that a file holds."""
    return json.loads(path.read_text(encoding="utf-8"))["pck"] if path.exists() else {}


def short_run(recipe: Recipe, row: TrainedRow, pairs: TrainingPairs, runs: Path) -> float:
    """Return PCK@0.10 in percent of a row after a short training."""
    folder = runs / "rates" / f"{row.key}-{recipe.learning_rate:g}-{recipe.steps}"
    initial = folder / "initial"
    folder.mkdir(parents=True, exist_ok=True)
    write_initial_model(
        recipe.model, initial, 0, runs / LEVELS / MODEL, new_features=row.new_features, own_start=row.own_start
    )
    share_features(folder / "features", runs / "features")
    recipe = replace(recipe, start=str(initial), freeze_features=not row.new_features)
    train(recipe, pairs, folder, Hardware())
    reached = last_logged(folder, "validation_pck")
    assert reached is not None  # a run ends with a validation
    return reached


if __name__ == "__main__":
    main()
