"""What does Ray cost on one machine, and what does a second worker give?

    python benchmarks/engines.py --pictures 500 --turns 3

carries points to so many pictures with the embedded model, each time in a process of its own: with the local engine,
with one Ray worker and with two, each held to one thread, and the same again in every turn. The times are those of the
whole call, with the start of Ray and its workers; the ratios are those of each turn, and their median counts. The files
written must be the same bytes. Needs two free cores; writes benchmarks/results/engines.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from PIL import Image

ENGINES = {"local": None, "one Ray worker": 1, "two Ray workers": 2}
LARGEST_COST, LEAST_GAIN = 1.15, 1.6
SIZE = (500, 375)


def write_pictures(folder: Path, sample: Path, count: int) -> None:
    """Write copies of the sample's target, each with a grain of its own, so that none is answered from a cache."""
    rng = np.random.default_rng(0)
    target = np.asarray(Image.open(sample / "target.png").convert("RGB").resize(SIZE))
    for number in range(count):
        pixels = target + rng.normal(0, 6, target.shape)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number:04d}.jpg", quality=90)


def run(engine: str, sample: Path, targets: Path, out: Path) -> float:
    """Return the seconds one engine takes, without loading the model and reading the reference."""
    from mambamatcher import Matcher
    from mambamatcher.apps.propagate import propagate as propagate_folder
    from mambamatcher.apps.propagate import read_references
    from mambamatcher.ops.native.memory import keep_freed_memory
    from mambamatcher.scale.engine import RayEngine
    from mambamatcher.scale.run import propagate
    from mambamatcher.scale.sources import read_source

    keep_freed_memory()  # as the commands and Ray's workers do
    matcher = Matcher.from_pretrained()
    references = read_references(matcher, [sample / "source.png"], sample / "points.json")
    begun = perf_counter()
    if ENGINES[engine] is None:
        propagate_folder(matcher, references, targets, out)
    else:
        propagate(RayEngine(workers=ENGINES[engine]), matcher, references, read_source(targets), out, overwrite=False)
    return perf_counter() - begun


def main() -> int:
    from mambamatcher.checkpoint import EMBEDDED
    from mambamatcher.measure import circumstances

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=500)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engines.json"))
    parser.add_argument(
        "--one", nargs=3, metavar=("ENGINE", "TARGETS", "OUT"), help="run one engine and print its time"
    )
    arguments = parser.parse_args()
    sample = EMBEDDED.parent / "sample"
    if arguments.one:
        engine, targets, out = arguments.one
        print(run(engine, sample, Path(targets), Path(out)))
        return 0
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    turns: list[dict[str, float]] = []
    written = set()
    with tempfile.TemporaryDirectory() as folder:
        targets = Path(folder) / "targets"
        targets.mkdir()
        write_pictures(targets, sample, arguments.pictures)
        for turn in range(arguments.turns):
            turns.append({})
            for engine in ENGINES:
                out = Path(folder) / f"{engine} {turn}"
                command = [sys.executable, __file__, "--one", engine, targets, out]
                done = subprocess.run(command, env=one_thread, stdout=subprocess.PIPE, text=True, check=True)
                turns[-1][engine] = float(done.stdout.splitlines()[-1])
                written.add((out / "points.jsonl").read_bytes())
                print(f"{engine}: {turns[-1][engine]:.1f} s", flush=True)
    assert len(written) == 1, "the engines' results differ"
    cost = median(turn["one Ray worker"] / turn["local"] for turn in turns)
    gain = median(turn["one Ray worker"] / turn["two Ray workers"] for turn in turns)
    result = {
        "circumstances": asdict(circumstances()),
        "pictures": arguments.pictures,
        "seconds": turns,
        "ray_over_local": cost,
        "two_workers_over_one": gain,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"Ray costs {cost - 1:+.1%}, at most {LARGEST_COST - 1:+.0%} are allowed")
    print(f"two workers are {gain:.2f}x as fast as one, at least {LEAST_GAIN}x is asked for")
    return int(cost > LARGEST_COST or gain < LEAST_GAIN)


if __name__ == "__main__":
    sys.exit(main())
