"""Time and memory of the formats of points: 100,000 images with 20 points each, written and read.

    python benchmarks/formats.py --save benchmarks/results

Each writer and each reader runs in a process of its own, and its memory is the most that this process held: the points
themselves, the interpreter and numpy included. Formats whose packages are not installed are left out.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.io.points import FORMATS, Annotations, PointSet, read_objects, write_points

IMAGES, POINTS = 100_000, 20
NAMES = tuple(f"point {number}" for number in range(POINTS))


def main() -> None:
    """Measure, print, and save if wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--formats", nargs="*", default=[name for name, each in FORMATS.items() if each.is_read])
    parser.add_argument("--save", type=Path, help="folder for formats.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS, metavar=("ACTION", "FORMAT", "FILE"))
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(run(*arguments.child, arguments.images)))
        return
    found: dict = {"images": arguments.images, "points per image": POINTS, "circumstances": asdict(circumstances())}
    for name in arguments.formats:
        if any(find_spec(module) is None for module in FORMATS[name].needs):
            continue
        found[name] = measure(name, arguments.images)
        print(name, json.dumps(found[name]), flush=True)
    if arguments.save is not None:
        (arguments.save / "formats.json").write_text(json.dumps(found, indent=2) + "\n")


def measure(name: str, images: int) -> dict:
    """Write and read one format, each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FORMATS[name].file.format(scorer="benchmark")
        results = {}
        for action in ("write", "read"):
            command = [sys.executable, __file__, "--images", str(images), "--child", action, name, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results[action] = json.loads(done.stdout.splitlines()[-1])
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        results["megabytes"] = round(sum(each.stat().st_size for each in files) / 1e6, 1)
    return results


def run(action: str, name: str, path: str, images: int) -> dict:
    """Write or read, and return the seconds it took and the most memory that this process held."""
    annotations = make_annotations(images) if action == "write" else None
    begun, used = time.perf_counter(), time.process_time()
    if annotations is not None:
        write_points(path, annotations, format=name)
    else:
        found = read_objects(path)
        assert len(found.images) == images
        assert sum(len(each.names) for each in found.objects()) == images * POINTS
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "processor seconds": round(time.process_time() - used, 1),
        "peak memory, MB": round(peak_kilobytes() / 1e3),
    }


def peak_kilobytes() -> int:
    """Return the most memory that this process held; getrusage would count the parent's."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def make_annotations(images: int) -> Annotations:
    """Make one object per image, with places, confidences and hidden points at random."""
    rng = np.random.default_rng(0)
    return Annotations(
        images={
            f"folder-{number // 1000:03d}/image-{number:06d}.jpg": [
                PointSet(
                    points=rng.uniform(0, 1000, (POINTS, 2)),
                    names=NAMES,
                    visibility=rng.integers(1, 3, POINTS),
                    confidence=rng.uniform(0, 1, POINTS),
                    size=(1280, 1024),
                    category="animal",
                )
            ]
            for number in range(images)
        }
    )


if __name__ == "__main__":
    main()
