"""Do the shipped models match points they were never trained on, anywhere on an object?

    python benchmarks/dense.py --pairs 200

transfers 50 random surface points of each rendered object, whose true positions are known exactly, with the shipped
models and with the nearest neighbours of the two untrained backbones they started from. Prints PCK@0.10 per image,
box, with 95 % bootstrap intervals over pairs, and writes benchmarks/results/dense.json.
"""

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np

from mambamatcher import Matcher
from mambamatcher.datasets.synthetic import SyntheticPairs
from mambamatcher.model.saved import SHIPPED

POINTS, ALPHA, RESAMPLES, SEED = 50, 0.10, 1000, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/dense.json"))
    arguments = parser.parse_args()
    trained = {name: Matcher.from_pretrained(name) for name in SHIPPED}
    untrained = {name: Matcher.from_preset(name) for name in ("nearest", "nearest-vit-s-focus")}
    matchers = {**trained, **untrained}
    rng = np.random.default_rng(SEED)
    shares: dict[str, list[float]] = {name: [] for name in matchers}
    for pair in SyntheticPairs(arguments.pairs, seed=SEED):
        positions, valid = pair.correspondence
        rows, columns = np.nonzero(valid)
        chosen = rng.choice(len(rows), min(POINTS, len(rows)), replace=False)
        points = np.stack([columns[chosen], rows[chosen]], axis=1) + 0.5
        truth = positions[rows[chosen], columns[chosen]]
        left, top, right, bottom = pair.target.bbox
        for name, matcher in matchers.items():
            found = matcher.match(pair.source.image, pair.target.image, points).points
            reach = ALPHA * max(right - left, bottom - top)
            shares[name].append(float((np.linalg.norm(found - truth, axis=1) <= reach).mean()))
    drawn = rng.integers(arguments.pairs, size=(RESAMPLES, arguments.pairs))
    table = {name: np.array(values) for name, values in shares.items()}
    for name, other in product(trained, untrained):
        table[f"{name} - {other}"] = table[name] - table[other]
    result: dict[str, object] = {"pairs": arguments.pairs, "points a pair": POINTS, "alpha": ALPHA}
    for name, values in table.items():
        low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
        result[name] = [round(100 * float(each), 1) for each in (values.mean(), low, high)]
        print(f"{name}: {100 * values.mean():.1f} ({100 * low:.1f} to {100 * high:.1f})")
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
