"""What a run is given as a list of its inputs, and what it finds of an earlier run, each damaged."""

import io
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image

from mambamatcher.datasets.records import AnnotatedImage, Pair
from mambamatcher.evaluation.compare import compare
from mambamatcher.evaluation.predictions import Header, PredictionFile, Predictions, read_predictions, record
from mambamatcher.evaluation.report import make_report, read_report
from mambamatcher.jobs.journal import Journal
from mambamatcher.jobs.shards import plan, read_lines, write_lines
from mambamatcher.jobs.source import pictures, read_source
from mambamatcher.model.config import to_dict
from mambamatcher.model.presets import tiny
from mambamatcher.training.callbacks import LAST
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.run import RECIPE, find_run
from tests.fuzz.checkpoints import pickled
from tests.fuzz.damage import Rng, damaged_bytes, damaged_json, pick

Action = Callable[[], None]

NAMES = [f"{number}.png" for number in range(6)]
ITEMS = [{"image": name, "points": [{"name": "nose", "x": 1.5, "y": 2.0, "matched": True}]} for name in NAMES]
HEADER = {"model": "m", "targets": "photos"}
PREDICTED = Header(model="m", configuration={}, dataset="d", split="s", reference="bbox", fingerprint="f", pairs=6)


def damaged_lines(rng: Rng, lines: list[Any]) -> bytes:
    """Damage one of some lines of JSON, or their text."""
    if rng.integers(3) == 0:
        return damaged_bytes(rng, "".join(json.dumps(line) + "\n" for line in lines).encode())
    number = int(rng.integers(len(lines)))
    texts = [damaged_json(rng, line) if index == number else json.dumps(line) for index, line in enumerate(lines)]
    return "".join(text + "\n" for text in texts).encode("utf-8", "surrogateescape")


def manifest(rng: Rng, folder: Path) -> Action:
    path = folder / "list.txt"
    path.write_bytes(damaged_bytes(rng, "\n".join(NAMES).encode()))

    def read() -> None:
        items = read_source(path).items
        assert len({item.name for item in items}) == len(items) > 0
        assert [name for name, _ in pictures(items)] == [item.name for item in items]

    return read


@cache
def table(embedded: bool) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (8, 6)).save(content, "PNG")
    columns: dict[str, list] = {"path": NAMES} | ({"bytes": [content.getvalue()] * len(NAMES)} if embedded else {})
    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer, row_group_size=2)
    return buffer.getvalue().to_pybytes()


def read_table() -> None:
    """Let pyarrow take the addresses of its pool."""
    for embedded in (False, True):
        pyarrow.parquet.read_table(pyarrow.BufferReader(table(embedded)))


def parquet(rng: Rng, folder: Path) -> Action:
    path = folder / "list.parquet"
    path.write_bytes(damaged_bytes(rng, table(bool(rng.integers(2)))))

    def read() -> None:
        items = read_source(path).items
        assert len(list(pictures(items))) == len(items) > 0

    return read


def journal(rng: Rng, folder: Path) -> Action:
    path = folder / "points.jsonl"
    path.write_bytes(damaged_lines(rng, [HEADER, *ITEMS[:4]]))

    def go_on() -> None:
        with Journal(path, HEADER, "image") as file:
            for item in ITEMS:
                if item["image"] not in file.done:
                    file.add(item)
        assert {line["image"] for line in map(json.loads, path.read_text().splitlines()[1:])} >= set(NAMES)

    return go_on


@cache
def predictions() -> list[dict[str, Any]]:
    points = {"nose": (10.0, 12.0), "tail": (40.0, 30.0)}
    image = AnnotatedImage(path=Path("a.png"), category="cat", size=(60, 50), bbox=(1, 1, 50, 40), keypoints=points)
    pairs = [Pair(name=name, source=image, target=image, category="cat") for name in NAMES]
    found = np.array([[11.0, 12.0], [20.0, 30.0]])
    return [record(pair, found, np.array([0.9, 0.5]), 0.1) for pair in pairs]


def prediction_file(rng: Rng, folder: Path) -> Action:
    path = folder / "predictions.jsonl"
    path.write_bytes(damaged_lines(rng, [asdict(PREDICTED), *predictions()[:4]]))

    def go_on() -> None:
        with PredictionFile(path, PREDICTED) as file:
            for line in predictions():
                if line["pair"] not in file.done:
                    file.add(line)
        make_report(read_predictions(path))

    return go_on


def report(rng: Rng, folder: Path) -> Action:
    good, bad = folder / "good.json", folder / "bad.json"
    content = _report()
    good.write_text(json.dumps(content))
    bad.write_text(damaged_json(rng, content), encoding="utf-8", errors="surrogateescape")

    def read() -> None:
        for comparison in compare(read_report(good), read_report(bad), resamples=20):
            assert 0 <= comparison.second <= 1

    return read


@cache
def _report() -> dict[str, Any]:
    return json.loads(json.dumps(make_report(Predictions(PREDICTED, predictions()))))


def parts(rng: Rng, folder: Path) -> Action:
    def planned() -> list:
        return plan(folder, ".jsonl", HEADER, ITEMS, NAMES, overwrite=False)

    for part in planned():
        write_lines(part.path, iter(part.items))
    path = pick(rng, sorted((folder / "parts").iterdir()))
    text = path.read_text()
    path.write_bytes(damaged_lines(rng, [json.loads(text)]))

    def go_on() -> None:
        assert len(list(read_lines(planned()))) == len(ITEMS)

    return go_on


@cache
def _checkpoint() -> bytes:
    content = io.BytesIO()
    torch.save({"state_dict": {"weight": torch.zeros(3)}, "loops": {}, "global_step": 4}, content)
    return content.getvalue()


def training(rng: Rng, folder: Path) -> Action:
    recipe, canary = Recipe(model=tiny()), folder / "canary"
    text, checkpoint = json.dumps(to_dict(recipe)), _checkpoint()
    way = int(rng.integers(3))
    if way == 0:
        text = damaged_json(rng, to_dict(recipe))
    else:
        checkpoint = damaged_bytes(rng, checkpoint) if way == 1 else pickled(rng, canary)
    (folder / RECIPE).write_text(text, encoding="utf-8", errors="surrogateescape")
    (folder / LAST).write_bytes(checkpoint)

    def go_on() -> None:
        try:
            assert find_run(folder, recipe) == folder / LAST
        finally:
            assert not canary.exists(), "code of a checkpoint was run"

    return go_on


KINDS = {
    "list: manifest": manifest,
    "list: Parquet": parquet,
    "begun: propagation": journal,
    "begun: evaluation": prediction_file,
    "begun: parts": parts,
    "begun: training": training,
    "report": report,
}


def run(rng: Rng, folder: Path) -> tuple[str, Action]:
    kind = pick(rng, list(KINDS))
    return kind, KINDS[kind](rng, folder)
