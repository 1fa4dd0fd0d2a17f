"""How much does the state of a trained scan change the scores that points are read from?

    mambamatcher reproduce correlation --budget 300 --root data
    python benchmarks/state_path.py runs/reproduce/correlation-descending-seed0/model data

refines the correlation maps of some pairs twice: with the scan as trained, and with its readout of the state set to
zero, which leaves the block everything that a position does to itself and its three predecessors. The difference is
what the state, and so the order of the scan, contributes. Both are in logits, i.e. scores times the temperature, and as
standard deviations over the target positions of a source position, because a softmax ignores constants. Prints the
smallest, median and largest mean over a pair and writes benchmarks/results/paper/state-path.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.io.images import load_image, resize_square, to_bytes
from mambamatcher.model.checkpoint import load_pretrained
from mambamatcher.model.correlation.similarity_scan import without_state
from mambamatcher.model.mambamatcher import MambaMatcher

DATASET, SPLIT = "voc", "selection"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a trained model with a scan")
    parser.add_argument("root", type=Path, help="folder with the benchmarks")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/paper/state-path.json"))
    arguments = parser.parse_args()
    model = load_pretrained(arguments.model)
    stateless = without_state(model)
    pairs = read_pairs(DATASET, SPLIT, arguments.root, check_images=False).pairs
    scores, changes = [], []
    for pair in pairs[:: len(pairs) // arguments.pairs][: arguments.pairs]:
        images = [
            torch.from_numpy(to_bytes(resize_square(load_image(each.path), model.config.side)))[None] / 255.0
            for each in (pair.source, pair.target)
        ]
        with torch.inference_mode():
            encoded = [model.encode(image) for image in images]
            refined, other = model.correlate(*encoded), stateless.correlate(*encoded)
        scores.append(row_deviation(refined, model))
        changes.append(row_deviation(refined - other, model))
    result = {
        "data": f"{DATASET} {SPLIT}, {len(scores)} pairs",
        "logits, smallest, median and largest of the pairs": {
            "scores": summary(scores),
            "what the state adds": summary(changes),
        },
    }
    print(json.dumps(result, indent=1))
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def row_deviation(refined: torch.Tensor, model: MambaMatcher) -> float:
    """Return the mean over source positions of the deviation of logits over target positions."""
    return float(model.config.transfer.temperature * refined.flatten(3).flatten(1, 2).std(dim=-1).mean())


def summary(values: list[float]) -> list[float]:
    return [round(float(each), 4) for each in (min(values), np.median(values), max(values))]


if __name__ == "__main__":
    main()
