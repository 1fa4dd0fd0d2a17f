"""Do the shipped models find the same with ONNX Runtime as with PyTorch?

    python benchmarks/runtime_parity.py data

matches pairs of real photos with both runtimes, evenly spaced over the validation pairs of SPair-71k, and prints the
largest differences between the points, in target pixels, and between the confidences. Writes them to
benchmarks/results/runtime/parity.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from mambamatcher import Matcher
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.model.saved import SHIPPED

DATASET, SPLIT = "spair", "val"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder with the benchmarks")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=list(SHIPPED))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/runtime/parity.json"))
    arguments = parser.parse_args()
    pairs = read_pairs(DATASET, SPLIT, arguments.root, check_images=False).pairs
    places = np.linspace(0, len(pairs) - 1, arguments.pairs).round().astype(int)
    result = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for model in arguments.models:
        result[model] = compare(model, [pairs[place] for place in places.tolist()])
        print(json.dumps({model: result[model]}, indent=1))
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def compare(model: str, pairs: list) -> dict[str, object]:
    with_torch, with_onnx = (Matcher.from_pretrained(model, runtime=runtime) for runtime in ("torch", "onnx"))
    distance, confidence, decided = [], [], []
    for pair in pairs:
        points = np.clip(pair.points()[0], 0, pair.source.size)
        expected, found = (each.match(pair.source.path, pair.target.path, points) for each in (with_torch, with_onnx))
        distance += np.linalg.norm(found.points - expected.points, axis=1).tolist()
        confidence += np.abs(found.confidence - expected.confidence).tolist()
        decided += (found.matched != expected.matched).tolist()
    return {
        "data": f"{DATASET} {SPLIT}, {len(pairs)} pairs, {len(distance)} points",
        "largest distance, px": max(distance),
        "largest difference of confidence": max(confidence),
        "points farther apart than 0.001 px": sum(each > 1e-3 for each in distance),
        "points that only one of them calls matched": sum(decided),
    }


if __name__ == "__main__":
    main()
