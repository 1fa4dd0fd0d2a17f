"""What fine-tuning on 20 annotated images brings, for a category that the model has never seen.

    python -m benchmarks.own_data --root data --runs runs/own --save benchmarks/results

The start is a short run of `vit-s` on VOC without chairs and cars, read out as the shipped model. Then, as a user would
with `train --start`, it is fine-tuned on 20 photos of the category, and both models are evaluated on pairs of the
photos that are in no draw. The default recipe was chosen on cars (`--category car` with other keys), chairs are
measured. A stopped run continues.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from mambamatcher.benchmark.measurement import circumstances
from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.records import AnnotatedImage
from mambamatcher.datasets.sampling import by_category, sample_pairs
from mambamatcher.datasets.voc_keypoints import FOLDERS, held_out, photo, read_images
from mambamatcher.io.points import make_points, to_coco
from mambamatcher.training.data_module import TrainingPairs
from mambamatcher.training.recipes import CHAINS, RECIPES
from mambamatcher.training.run import Hardware
from mambamatcher.training.run import train as run_training

UNSEEN = ("car", "chair")
DRAWN, DRAWS, PAIRS = 20, 3, 300
START_PAIRS, START_VALIDATION = 60_000, 18


def main() -> None:
    """Make the start if there is none, fine-tune it on each draw, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="folder with the VOC folders")
    parser.add_argument("--runs", type=Path, default=Path("runs/own"))
    parser.add_argument("--category", default="chair", choices=UNSEEN)
    parser.add_argument("--draws", type=int, nargs="+", default=list(range(DRAWS)))
    parser.add_argument("--name", default="default", help="name for changes to the recipe")
    parser.add_argument("--save", type=Path, help="folder for own-data-CATEGORY.json")
    parser.add_argument("changes", nargs="*", help="KEY=VALUE changes to the recipe")
    arguments = parser.parse_args()
    root, runs, category = arguments.root.absolute(), arguments.runs, arguments.category
    start = make_start(root, runs / "start")
    draws, others = draw(root, category)
    folder = runs / category
    folder.mkdir(parents=True, exist_ok=True)
    test = write(folder / "others.coco.json", others, root)
    before = evaluate(start, test, root, folder / "before")
    rows = []
    for number in arguments.draws:
        place = folder / f"{arguments.name}-{number}"
        file = write(folder / f"draw-{number}.coco.json", draws[number], root)
        spent = fine_tune(start, file, root, place, arguments.changes)
        report = evaluate(place / "model", test, root, place / "after")
        compared = json.loads(mambamatcher("compare", before, report, "--json"))["comparisons"]
        row = next(each for each in compared if each["category"] == "all" and each["alpha"] == 0.1)
        kept = ("pairs", "points", "first", "second", "low", "high", "p_image")
        rows.append({"draw": number, **{key: row[key] for key in kept}, **spent})
        print(json.dumps(rows[-1]), flush=True)
    found = {
        "circumstances": asdict(circumstances()),
        "protocol": f"PCK@0.10, bbox, per image, {PAIRS} pairs of the {len(others)} photos of VOC2011-keypoints that "
        f"are in none of {DRAWS} draws of {DRAWN}; interval: paired bootstrap over pairs",
        "category": category,
        "start": json.loads((runs / "start" / "start.json").read_text()),
        "changes to the recipe": arguments.changes,
        "draws": rows,
    }
    if arguments.save is not None:
        (arguments.save / f"own-data-{category}.json").write_text(json.dumps(found, indent=1) + "\n")


def make_start(root: Path, folder: Path) -> Path:
    """Train `vit-s` on the categories that are not measured, and return its folder with the shipped readout."""
    model = folder / "read-out"
    if (model / "config.json").exists():
        return model
    images = [image for name in FOLDERS for image in read_images(root / name, Faults()) if image.category not in UNSEEN]
    parts = [[image for image in images if held_out(photo(image.path)) == wanted] for wanted in (False, True)]
    training, validation = (
        sample_pairs(by_category(part), count, 0, lambda image: photo(image.path))
        for part, count in zip(parts, (START_PAIRS, START_VALIDATION), strict=True)
    )
    recipe = replace(RECIPES["vit-s"]().recipe, steps=250, round_steps=25, warmup_steps=20, averaging=0.98)
    resume = (folder / "recipe.json").exists()
    pairs = TrainingPairs(train=training, validation=validation)
    trained = run_training(recipe, pairs, folder, Hardware(accelerator="cpu"), resume)
    mambamatcher("export", "--model", trained, "--folder", model, "--half", *CHAINS["default"].readout)
    seen = recipe.steps * recipe.effective_batch * recipe.group_images
    content = {"recipe": "vit-s", "without": UNSEEN, "images seen": seen}
    (folder / "start.json").write_text(json.dumps(content) + "\n")
    return model


def draw(root: Path, category: str) -> tuple[list[list[AnnotatedImage]], list[AnnotatedImage]]:
    """Return disjoint draws of photos of a category, and the photos that are in none."""
    images = [image for image in read_images(root / FOLDERS[0], Faults()) if image.category == category]
    order = np.random.default_rng(0).permutation(len(images))
    shuffled = [images[index] for index in order if len(images[index].keypoints) >= 3]
    return [shuffled[DRAWN * k : DRAWN * (k + 1)] for k in range(DRAWS)], shuffled[DRAWN * DRAWS :]


def write(file: Path, images: Sequence[AnnotatedImage], root: Path) -> Path:
    """Write a COCO file with the points and the annotated boxes of images."""
    content = to_coco(
        {
            image.path.relative_to(root).as_posix(): make_points(list(image.keypoints.values()), list(image.keypoints))
            for image in images
        },
        images[0].category,
    )
    for entry, image in zip(content["annotations"], images, strict=True):
        left, top, right, bottom = image.bbox or (0.0, 0.0, *image.size)
        entry["bbox"] = [left, top, right - left, bottom - top]
    file.write_text(json.dumps(content))
    return file


def fine_tune(start: Path, file: Path, root: Path, run: Path, changes: Sequence[str]) -> dict[str, float]:
    """Fine-tune with the command that people use; return the seconds that it took."""
    record = run / "seconds.json"
    if not record.exists():
        resume = ["--resume"] if (run / "recipe.json").exists() else []
        wall, before = time.monotonic(), _children_seconds()
        mambamatcher("train", "--start", start, "--dataset", file, "--root", root, "--out", run, *resume, *changes)
        spent = {"wall s": time.monotonic() - wall, "CPU s": _children_seconds() - before}
        record.write_text(json.dumps({key: round(value, 1) for key, value in spent.items()}))
    return json.loads(record.read_text())


def evaluate(model: Path, test: Path, root: Path, out: Path) -> Path:
    """Evaluate a model on pairs of the photos that are in no draw; return the report."""
    report = out / "report.json"
    if not report.exists():
        chosen = ("--dataset", test, "--split", "all", "--root", root, "--limit", PAIRS, "--out", out, "--json")
        mambamatcher("evaluate", model, *chosen)
    return report


def mambamatcher(*words: object) -> str:
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "mambamatcher", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ).stdout


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
