"""What a round of corrections costs beside a first `propagate`, in processor time.

    python -m benchmarks.rounds lite --images 200 --corrections 1 5 10 --save benchmarks/results

The images are rendered. After the first run, some of them are accepted as they are, which makes them references.
"""

import argparse
import json
import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from PIL import Image

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.datasets.synthetic import SyntheticPairs
from mambamatcher.io.points import make_points
from mambamatcher.jobs.source import read_source
from mambamatcher.matching.matcher import Matcher
from mambamatcher.tools.corrections import FILE, Correction, Corrections, Status, annotated, write_corrections
from mambamatcher.tools.propagate import propagate
from mambamatcher.tools.references import Reference
from mambamatcher.tools.rounds import read_results


def main() -> None:
    """Measure, print, and save if wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--corrections", type=int, nargs="+", default=[1, 5, 10])
    parser.add_argument("--save", type=Path, help="folder for rounds-MODEL.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(arguments.model, arguments.images, arguments.corrections, Path(folder))
    text = json.dumps({"circumstances": asdict(circumstances()), **found}, indent=1)
    print(text)
    if arguments.save is not None:
        (arguments.save / f"rounds-{arguments.model}.json").write_text(text + "\n")


def measure(model: str, count: int, corrections: list[int], work: Path) -> dict:
    """Time the first run and a round with each number of corrections, each round after the same first run."""
    (work / "targets").mkdir()
    pairs = SyntheticPairs(count + 1, seed=0)
    for number in range(count):
        Image.fromarray(pairs[number + 1].source.image).save(work / "targets" / f"{number:04d}.png")
    view = pairs[0].source
    matcher = Matcher.from_pretrained(model)
    points = make_points(view.keypoints[view.visible])
    reference = Reference(matcher.read(Image.fromarray(view.image)), points)
    made_for = (annotated(reference.loaded.image, points),)
    targets = read_source(work / "targets")
    matcher.match(reference.loaded, reference.loaded, points.points)  # compiles and loads what is needed once

    def timed(out: Path) -> float:
        matcher.clear_cache()
        started = time.process_time()
        propagate(matcher, [reference], targets, out)
        return time.process_time() - started

    first = timed(work / "first")
    results = list(read_results(work / "first").values())
    rounds = {}
    for number in corrections:
        out = work / f"round-{number}"
        shutil.copytree(work / "first", out)
        accepted = {
            result["image"]: Correction(Status.accepted, {p["name"]: (p["x"], p["y"]) for p in result["points"]})
            for result in results[:number]
        }
        write_corrections(out / FILE, Corrections(made_for, accepted))
        rounds[number] = timed(out)
    ratios = {number: round(seconds / first, 2) for number, seconds in rounds.items()}
    return {"model": model, "images": count, "first run, CPU s": first, "round, CPU s": rounds, "ratio": ratios}


if __name__ == "__main__":
    main()
