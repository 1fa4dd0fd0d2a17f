"""How much of a score on PF-PASCAL validation comes from pictures that were trained on?

    python benchmarks/overlap.py runs/pf-pascal-second/val data

splits an evaluation on PF-PASCAL's validation pairs by what they share with the official training pairs, and prints
PCK@0.10 per image (image, original pixels) of each part with a 95 % bootstrap interval over pairs.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from mambamatcher.data.benchmarks import read_pairs

ALPHA, RESAMPLES = 0.10, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evaluation", type=Path, help="the folder `mambamatcher evaluate --out` wrote")
    parser.add_argument("root", type=Path, help="where the benchmarks are")
    arguments = parser.parse_args()
    trained = read_pairs("pf-pascal", "trn", arguments.root, check_images=False).pairs
    seen = {each.path for pair in trained for each in (pair.source, pair.target)}
    together = {frozenset((pair.source.path, pair.target.path)) for pair in trained}
    errors = json.loads((arguments.evaluation / "report.json").read_text(encoding="utf-8"))["errors"]
    parts: dict[str, list[float]] = {
        "all": [],
        "no picture trained on": [],
        "one or both trained on": [],
        "trained on": [],
    }
    for pair in read_pairs("pf-pascal", "val", arguments.root, check_images=False).pairs:
        share = float((np.array(errors[pair.name]["errors"], dtype=float) <= ALPHA).mean())
        known = {pair.source.path, pair.target.path} & seen
        parts["all"].append(share)
        parts["one or both trained on" if known else "no picture trained on"].append(share)
        if frozenset((pair.source.path, pair.target.path)) in together:
            parts["trained on"].append(share)
    rng = np.random.default_rng(0)
    for name, shares in parts.items():
        values = np.array(shares)
        low, high = np.quantile(
            values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1), [0.025, 0.975]
        )
        print(f"{name}: {len(values)} pairs, {100 * values.mean():.1f} ({100 * low:.1f} to {100 * high:.1f})")


if __name__ == "__main__":
    main()
