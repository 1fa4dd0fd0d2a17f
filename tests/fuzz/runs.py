"""What a run is given as a list of its inputs, and what it finds of an earlier run, each damaged."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image

from mambamatcher.datasets.records import AnnotatedImage, Pair
from mambamatcher.evaluation.compare import compare
from mambamatcher.evaluation.evaluate import Request, evaluation_job
from mambamatcher.evaluation.predictions import Header, Predictions, record
from mambamatcher.evaluation.report import make_report, read_report
from mambamatcher.io.written import WrittenFiles
from mambamatcher.jobs.engines import LOCAL
from mambamatcher.jobs.job import Job
from mambamatcher.jobs.job import run as run_job
from mambamatcher.jobs.journal import write_lines
from mambamatcher.jobs.shards import shard_job
from mambamatcher.jobs.source import Item, Source, images, read_source
from mambamatcher.model.config import to_dict
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.presets import tiny
from mambamatcher.tools.outputs import write_formats
from mambamatcher.tools.propagate import check_results
from mambamatcher.training.folder import BEST, LAST, RECIPE, find_run
from mambamatcher.training.recipe import Recipe
from tests.fuzz.checkpoints import pickled
from tests.fuzz.damage import Rng, damaged_bytes, damaged_json, pick

Action = Callable[[], None]

NAMES = [f"{number}.png" for number in range(6)]
NOSE = {"name": "nose", "x": 1.5, "y": 2.0, "confidence": 0.5, "matched": True}
RESULTS = [{"image": name, "size": [8, 6], "distance": 0.25, "points": [NOSE]} for name in NAMES]
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
        assert [name for name, _ in images(items)] == [item.name for item in items]

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
        assert len(list(images(items))) == len(items) > 0

    return read


def journal(rng: Rng, folder: Path) -> Action:
    path = folder / "points.jsonl"
    path.write_bytes(damaged_lines(rng, [HEADER, *RESULTS[:4]]))
    items = [Item(name, str(folder / name)) for name in NAMES]

    def finish(results: list) -> int:
        write_formats(WrittenFiles(folder), Source(folder, items), results)
        return len(results)

    job = Job(
        label="targets",
        inputs=items,
        header=HEADER,
        journal=path,
        key="image",
        work=lambda left: [result for result in RESULTS if result["image"] in {item.name for item in left}],
        finish=finish,
        check=partial(check_results, path, []),
    )

    def resume() -> None:
        assert run_job(job, LOCAL) == len(NAMES)
        lines = list(map(json.loads, path.read_text().splitlines()[1:]))
        assert [line["image"] for line in lines][: len(NAMES)] == NAMES

    return resume


@cache
def pairs() -> list[Pair]:
    points = {"nose": (10.0, 12.0), "tail": (40.0, 30.0)}
    image = AnnotatedImage(path=Path("a.png"), category="cat", size=(60, 50), bbox=(1, 1, 50, 40), keypoints=points)
    return [Pair(name=name, source=image, target=image, category="cat") for name in NAMES]


def predicted(left: Iterable[Pair]) -> Iterator[dict[str, Any]]:
    found = np.array([[11.0, 12.0], [20.0, 30.0]])
    return (record(pair, found, np.array([0.9, 0.5]), 0.1) for pair in left)


class Unused:
    """The place of a predictor in a job that has its own work."""

    name, configuration = "m", dict[str, Any]()

    def predict_points(self, source: Any, target: Any, points: Any) -> Any: ...


def prediction_file(rng: Rng, folder: Path) -> Action:
    path = folder / "predictions.jsonl"
    path.write_bytes(damaged_lines(rng, [asdict(PREDICTED), *predicted(pairs()[:4])]))
    request = Request(dataset="d", split="s", output=folder)
    job = replace(evaluation_job(Unused(), pairs(), PREDICTED, request), work=predicted)

    def resume() -> None:
        assert run_job(job, LOCAL)["pairs"] >= len(NAMES)

    return resume


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
    return json.loads(json.dumps(make_report(Predictions(PREDICTED, list(predicted(pairs()))))))


def write_names(items: Sequence[Item], path: Path) -> dict[str, int]:
    write_lines(path, [{"image": item.name} for item in items])
    return {"items": len(items)}


def shards(rng: Rng, folder: Path) -> Action:
    items = [Item(name, name) for name in NAMES]

    def run_shards() -> int:
        job = shard_job(
            folder,
            items,
            HEADER,
            write_names,
            suffix=".jsonl",
            finish=lambda counts: counts["items"],
            digest=lambda _: "same",
        )
        return run_job(job, LOCAL)

    run_shards()
    path = pick(rng, sorted((folder / "parts").iterdir()))
    path.write_bytes(damaged_lines(rng, [json.loads(line) for line in path.read_text().splitlines()]))

    def resume() -> None:
        counted = run_shards()
        # damage that leaves a whole number of the right shape is beyond what a journal can notice
        assert path.name == "_run.jsonl" or counted == len(NAMES)

    return resume


@cache
def _model() -> MambaMatcher:
    return MambaMatcher(tiny())


@cache
def _checkpoint() -> bytes:
    content = io.BytesIO()
    weights = {f"model.{key}": value for key, value in _model().state_dict().items()}
    rest = {key: {} for key in ("loops", "optimizer_states", "lr_schedulers", "callbacks", "epoch")}
    torch.save({"state_dict": weights, "global_step": 4, **rest}, content)
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
    (folder / BEST).write_bytes(_checkpoint())

    def resume() -> None:
        try:
            assert find_run(folder, recipe, _model()) == folder / LAST
        finally:
            assert not canary.exists(), "code of a checkpoint was run"

    return resume


KINDS = {
    "list: manifest": manifest,
    "list: Parquet": parquet,
    "begun: propagation": journal,
    "begun: evaluation": prediction_file,
    "begun: shards": shards,
    "begun: training": training,
    "report": report,
}


def run(rng: Rng, folder: Path) -> tuple[str, Action]:
    kind = pick(rng, list(KINDS))
    return kind, KINDS[kind](rng, folder)
