"""Write the curve of a training run, over all its sessions, as CSV: step, images seen, loss, validation PCK@0.10.

    python benchmarks/curve.py runs/vit-s benchmarks/results/vit-s/curve.csv

A session logs to a folder of its own. Where a killed session had logged steps that the next one repeated, the later
values count.
"""

import csv
import json
import sys
from pathlib import Path

COLUMNS = ("step", "images", "loss", "validation_pck")


def read_curve(run: Path) -> list[dict[str, str]]:
    """Return one row per logged step."""
    recipe = json.loads((run / "recipe.json").read_text())
    images_per_step = recipe["effective_batch"] * recipe["group_images"]
    rows: dict[int, dict[str, str]] = {}
    sessions = sorted((run / "csv").glob("version_*"), key=lambda folder: int(folder.name.removeprefix("version_")))
    for session in sessions:
        with (session / "metrics.csv").open(newline="") as file:
            for entry in csv.DictReader(file):
                step = int(entry["step"]) + 1
                row = rows.setdefault(step, {"step": str(step), "images": str(step * images_per_step)})
                row |= {name: f"{float(entry[name]):.4f}" for name in COLUMNS[2:] if entry.get(name)}
    return [rows[step] for step in sorted(rows)]


def main() -> None:
    run, out = map(Path, sys.argv[1:3])
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(read_curve(run))


if __name__ == "__main__":
    main()
