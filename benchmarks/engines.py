"""What does Ray cost on one machine, and what does a second worker give?

    python benchmarks/engines.py --pictures 500 --turns 3

transfers points to that many images with the embedded model, each time in a process of its own: with the local engine,
with one Ray worker and with two, each with one thread, and the same again in every turn. Ray is first started for the
run alone, as without `--address`, and then runs already and has worked before, as a cluster does. The times are those
of the whole call, with the start of the workers and, in the first case, of Ray; the ratios are those of each turn, and
their median counts. The files written must be the same bytes. Needs two free cores; two local engines at once, with
half of the images each, show how free they are. Writes benchmarks/results/engines.json.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from PIL import Image

CONTROL, OWN, RUNNING = "without Ray", "Ray started for the run", "Ray running already"
WORKERS = {"one worker": 1, "two workers": 2}
LARGEST_COST, LEAST_GAIN = 1.15, 1.6
SIZE = (500, 375)
WARM_UP = 8  # images, after which a cluster has worked before


def write_pictures(folder: Path, sample: Path, count: int) -> None:
    """Write copies of the sample's target, each with a grain of its own, so that none is answered from a cache."""
    rng = np.random.default_rng(0)
    target = np.asarray(Image.open(sample / "target.png").convert("RGB").resize(SIZE))
    for number in range(count):
        pixels = target + rng.normal(0, 6, target.shape)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number:04d}.jpg", quality=90)


def run(workers: int, address: str | None, sample: Path, targets: Path, out: Path) -> float:
    """Return the seconds a propagation takes, without loading the model and reading the reference; 0 workers: local."""
    from mambamatcher import Matcher
    from mambamatcher.jobs.engines import LOCAL
    from mambamatcher.jobs.ray_engine import RayEngine
    from mambamatcher.jobs.source import read_source
    from mambamatcher.ops.native.memory import keep_freed_memory
    from mambamatcher.tools.propagate import propagate, read_references

    keep_freed_memory()  # as the commands and Ray's workers do
    matcher = Matcher.from_pretrained("lite")
    references = read_references(matcher, [sample / "source.png"], sample / "points.json")
    begun = perf_counter()
    propagate(matcher, references, read_source(targets), out, RayEngine(address, workers) if workers else LOCAL)
    return perf_counter() - begun


def run_apart(workers: int, address: str | None, targets: Path, out: Path) -> float:
    """Do it in a process of its own, with one thread."""
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", str(workers), address or "local", str(targets), str(out)]
    done = subprocess.run(command, env=one_thread, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def link(pictures: list[Path], folder: Path) -> Path:
    """Make a folder of some of the images."""
    folder.mkdir(parents=True)
    for picture in pictures:
        (folder / picture.name).symlink_to(picture)
    return folder


def run_two(targets: Path, out: Path) -> float:
    """Return the seconds of two local engines at once, the slower's, with half of the images each."""
    pictures = sorted(targets.iterdir())
    halves = [link(pictures[begin::2], out / f"half {begin}") for begin in range(2)]
    with ThreadPoolExecutor(2) as pool:
        return max(pool.map(lambda half: run_apart(0, None, half, half.with_suffix(".points")), halves))


@contextmanager
def running_ray(targets: Path, out: Path) -> Iterator[str]:
    """Start Ray on this machine, let it do a few images, and yield its address."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        address = ray.get_runtime_context().gcs_address
        run_apart(2, address, link(sorted(targets.iterdir())[:WARM_UP], out / "few"), out / "points")
        yield address
    finally:
        ray.shutdown()


def measure(targets: Path, out: Path) -> tuple[dict[str, dict[str, float]], set[bytes]]:
    """Return the seconds of one turn and the different files that it wrote."""
    written = set()

    def measure_one(workers: int, address: str | None, name: str) -> float:
        seconds = run_apart(workers, address, targets, out / name)
        written.add((out / name / "points.jsonl").read_bytes())
        print(f"{name}: {seconds:.1f} s", flush=True)
        return seconds

    local = measure_one(0, None, "local")
    at_once = run_two(targets, out)
    print(f"two local engines at once: {at_once:.1f} s", flush=True)
    turn = {CONTROL: {"local": local, "two at once": at_once}}
    turn[OWN] = {"local": local, **{name: measure_one(n, None, f"{name}, {OWN}") for name, n in WORKERS.items()}}
    with running_ray(targets, out / "warm-up") as address:
        turn[RUNNING] = {
            "local": local,
            **{name: measure_one(n, address, f"{name}, {RUNNING}") for name, n in WORKERS.items()},
        }
    return turn, written


def main() -> int:
    from mambamatcher.benchmark.measurement import circumstances
    from mambamatcher.model.saved import SHIPPED

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=500)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engines.json"))
    parser.add_argument("--one", nargs=4, metavar=("WORKERS", "ADDRESS", "TARGETS", "OUT"), help="do and time one run")
    arguments = parser.parse_args()
    sample = SHIPPED["lite"].parent / "sample"
    if arguments.one:
        workers, address, targets, out = arguments.one
        print(run(int(workers), address, sample, Path(targets), Path(out)))
        return 0
    turns = []
    written: set[bytes] = set()
    with tempfile.TemporaryDirectory() as folder:
        targets = Path(folder) / "targets"
        targets.mkdir()
        write_pictures(targets, sample, arguments.pictures)
        for number in range(arguments.turns):
            turn, files = measure(targets, Path(folder) / f"turn {number}")
            turns.append(turn)
            written |= files
    assert len(written) == 1, "the engines' results differ"
    result = {"circumstances": asdict(circumstances()), "pictures": arguments.pictures, "seconds": turns}
    gain = median(turn[CONTROL]["local"] / turn[CONTROL]["two at once"] for turn in turns)
    result[CONTROL] = {"two_engines_over_one": gain}
    print(f"two local engines at once do {gain:.2f}x the work of one")
    missed = False
    for ray in (OWN, RUNNING):
        cost = median(turn[ray]["one worker"] / turn[ray]["local"] for turn in turns)
        gain = median(turn[ray]["one worker"] / turn[ray]["two workers"] for turn in turns)
        result[ray] = {"ray_over_local": cost, "two_workers_over_one": gain}
        missed |= cost > LARGEST_COST or gain < LEAST_GAIN
        print(
            f"{ray}: it costs {cost - 1:+.1%}, at most {LARGEST_COST - 1:+.0%} are allowed; two workers are "
            f"{gain:.2f}x as fast as one, at least {LEAST_GAIN}x is asked for"
        )
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
