"""How much do training images in the validation pairs raise the score of a model trained on PF-PASCAL?

    python benchmarks/overlap.py runs/pf-pascal-continued/val data
    python benchmarks/overlap.py runs/reproduce/lite-pf-pascal-384-spair-val data --dataset spair

Splits the validation pairs by the images that they share with PF-PASCAL's official training pairs, and prints PCK@0.10
per image of each part, by the evaluation's first metric, with a 95 % bootstrap interval over pairs. SPair-71k takes its
images from the same collection, under the same names. Writes benchmarks/results/lite/overlap-DATASET.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.records import Pair

ALPHA, RESAMPLES = 0.10, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evaluation", type=Path, help="folder that `mambamatcher evaluate --out` wrote")
    parser.add_argument("root", type=Path, help="folder with the benchmarks")
    parser.add_argument("--dataset", default="pf-pascal", choices=("pf-pascal", "spair"))
    arguments = parser.parse_args()
    trained = read_pairs("pf-pascal", "trn", arguments.root, check_images=False).pairs
    trained_pairs = {_names(pair) for pair in trained}
    seen = frozenset().union(*trained_pairs)
    errors = json.loads((arguments.evaluation / "report.json").read_text(encoding="utf-8"))["errors"]
    parts: dict[str, list[float]] = {
        "all": [],
        "no image trained on": [],
        "one or both trained on": [],
        "trained on": [],
    }
    for pair in read_pairs(arguments.dataset, "val", arguments.root, check_images=False).pairs:
        share = float((np.array(errors[pair.name]["errors"], dtype=float) <= ALPHA).mean())
        parts["all"].append(share)
        parts["one or both trained on" if _names(pair) & seen else "no image trained on"].append(share)
        if _names(pair) in trained_pairs:
            parts["trained on"].append(share)
    rng, result = np.random.default_rng(0), {}
    for name, shares in filter(lambda part: part[1], parts.items()):
        values = np.array(shares)
        low, high = np.quantile(
            values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1), [0.025, 0.975]
        )
        result[name] = {"pairs": len(values), "pck": [round(100 * each, 1) for each in (values.mean(), low, high)]}
        print(f"{name}: {len(values)} pairs, {100 * values.mean():.1f} ({100 * low:.1f} to {100 * high:.1f})")
    path = Path("benchmarks/results/lite") / f"overlap-{arguments.dataset}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _names(pair: Pair) -> frozenset[str]:
    return frozenset((pair.source.path.name, pair.target.path.name))


if __name__ == "__main__":
    main()
