"""What does the flip test do? PCK and left/right confusion with and without it, on photographs with named keypoints.

    python benchmarks/flip.py --root DATA --save benchmarks/results

Pairs are drawn from the VOC selection split. A keypoint that has a side is confused where its wrong match lies within
0.1 of the box's longer side of its counterpart on the other side.
"""

import argparse
import json
import random
from dataclasses import asdict
from pathlib import Path

import numpy as np

from mambamatcher import Matcher
from mambamatcher.benchmark.measure import circumstances
from mambamatcher.cli.match import load_matcher
from mambamatcher.data.benchmarks import read_pairs
from mambamatcher.data.records import Pair
from mambamatcher.data.sides import has_side, mirror_name

ALPHA = 0.1


def main() -> None:
    """Measure both ways, print, and save if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--model", default="mambamatcher/assets/lite")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--save", type=Path, help="a folder for flip.json")
    arguments = parser.parse_args()
    pairs = list(read_pairs("voc", "selection", arguments.root, check_images=False).pairs)
    random.Random(0).shuffle(pairs)
    matcher = load_matcher(arguments.model)
    chosen = pairs[: arguments.pairs]
    found = {
        "circumstances": asdict(circumstances()),
        "model": arguments.model,
        "pairs": len(chosen),
        "without": summary([score(matcher, pair, flip_test=False) for pair in chosen]),
        "with": summary([score(matcher, pair, flip_test=True) for pair in chosen]),
    }
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.save is not None:
        (arguments.save / "flip.json").write_text(text + "\n")


def score(matcher: Matcher, pair: Pair, *, flip_test: bool) -> tuple[float, int, int, bool]:
    """Return the share of right keypoints, confused ones, those with a counterpart, and whether it was mirrored."""
    source = matcher.read(pair.source.path)
    points, truth = pair.points()
    result = matcher.match(source, pair.target.path, np.clip(points, 0, source.image.size), flip_test=flip_test)
    left, top, right, bottom = pair.target.bbox
    reach = ALPHA * max(right - left, bottom - top)
    correct = np.linalg.norm(result.points - truth, axis=1) <= reach
    confused = sided = 0
    for name, place, is_correct in zip(pair.names, result.points, correct, strict=True):
        other = pair.target.keypoints.get(mirror_name(name)) if has_side(name) else None
        if other is not None:
            sided += 1
            confused += not is_correct and np.linalg.norm(place - other) <= reach
    return float(correct.mean()), confused, sided, result.mirrored


def summary(scores: list[tuple[float, int, int, bool]]) -> dict:
    """Sum up, with a 95 % interval of the PCK over pairs."""
    right, confused, sided, mirrored = np.array(scores, float).T
    drawn = np.random.default_rng(0).choice(right, (1000, len(right))).mean(axis=1)
    return {
        "PCK@0.10 per image, box": 100 * right.mean(),
        "95 % interval": (100 * np.percentile(drawn, [2.5, 97.5])).tolist(),
        "left/right confused, %": 100 * confused.sum() / sided.sum(),
        "keypoints with a counterpart": int(sided.sum()),
        "mirrored pairs, %": 100 * mirrored.mean(),
    }


if __name__ == "__main__":
    main()
