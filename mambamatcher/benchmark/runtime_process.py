"""What one process of the runtime benchmark does: match the sample photos with one model in one runtime.

`python -m mambamatcher.benchmark.runtime_process MODEL RUNTIME` prints its measurements as JSON.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from os import cpu_count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import cast

import mambamatcher
from mambamatcher.benchmark.measurement import peak_mib
from mambamatcher.io.images import load_image, resize_square, to_bytes
from mambamatcher.io.points import read_points
from mambamatcher.matching.loading import RuntimeName
from mambamatcher.matching.matcher import Matcher
from mambamatcher.tools.propagate import propagate_each, read_references

PHOTOS = Path(mambamatcher.__file__).parent / "assets" / "photos"
SOURCE, TARGET, POINTS = PHOTOS / "cat.jpg", PHOTOS / "raccoon.jpg", PHOTOS / "cat.json"
PAIRS, TARGETS = 5, 24


def measure(model: str, runtime: RuntimeName) -> dict[str, float | None]:
    """Measure one model in one runtime, after a first match that warms it up."""
    matcher = Matcher.from_pretrained(model, runtime=runtime)
    points = read_points(POINTS, SOURCE).points
    pixels = to_bytes(resize_square(load_image(SOURCE), matcher.runtime.side))

    def match() -> None:
        matcher.clear_cache()  # both images are encoded again
        matcher.match(SOURCE, TARGET, points)

    match()
    pairs = [_timed(match) for _ in range(PAIRS)]
    encodings = [_timed(lambda: matcher.runtime.encode(pixels)) for _ in range(PAIRS)]
    matcher.clear_cache()
    many = matcher.for_many()  # loaded before, as the model is
    references = read_references(many, [SOURCE], POINTS)
    with TemporaryDirectory() as folder:
        targets = _write_targets(Path(folder))
        seconds, _ = _timed(lambda: list(propagate_each(many, references, targets)))
    peak = peak_mib()
    with _busy_cores():
        busy = [_timed(match)[0] for _ in range(PAIRS)]
    return {
        "pair_seconds": median(wall for wall, _ in pairs),
        "pair_cpu_seconds": median(cpu for _, cpu in pairs),
        "encode_cpu_seconds": median(cpu for _, cpu in encodings),
        "propagate_images_per_second": TARGETS / seconds,
        "peak_mib": peak,
        "busy_pair_seconds": median(busy),
    }


def _write_targets(folder: Path) -> list[tuple[str, Path]]:
    """Write crops of the photos; no two are equal, and none equals the reference, so that each is encoded."""
    targets = []
    for number, photo in enumerate(islice(cycle(sorted(PHOTOS.glob("*.jpg"))), TARGETS), start=1):
        path = folder / f"{number}.jpg"
        image = load_image(photo)
        image.crop((number, 0, *image.size)).save(path, quality=90)
        targets.append((path.name, path))
    return targets


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock and processor seconds of a call."""
    wall, cpu = perf_counter(), process_time()
    work()
    return perf_counter() - wall, process_time() - cpu


@contextmanager
def _busy_cores() -> Iterator[None]:
    """Keep every core busy with an endless loop in a process of its own."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1], cast(RuntimeName, sys.argv[2]))))
