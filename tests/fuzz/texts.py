"""Point files, annotations of benchmarks and configurations, each damaged."""

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.errors import MambaMatcherError
from mambamatcher.io.points import (
    FORMATS,
    Settings,
    check_points,
    make_points,
    read_objects,
    read_points,
    to_coco,
    write_points,
)
from mambamatcher.io.points.label_studio_format import to_task
from mambamatcher.io.points.x_anylabeling_format import to_label_file
from mambamatcher.matching.confidence import load_calibration
from mambamatcher.model.checkpoint import read_config
from mambamatcher.model.config import from_dict, override, to_dict
from mambamatcher.model.presets import PRESETS
from tests.datasets import releases
from tests.fuzz.damage import ODD_VALUES, Rng, damaged_bytes, damaged_json, pick

Action = Callable[[], None]

POINTS = {
    name: make_points([(10.5, 20), (3, 4), (0, 0)], ["nose", "tail", "left ear"], [2, 1, 0])
    for name in ("a.jpg", "b/c.png")
}
DOCUMENTS = {
    "list": [[1, 2], [3.5, 4]],
    "named": {"points": [[1, 2], [3, 4]], "names": ["a", "b"], "visibility": [2, 0]},
    "images": {"images": {"a.jpg": {"points": [[1, 2]]}, "b/c.png": {"points": [[3, 4]], "names": ["x"]}}},
    "coco": to_coco(POINTS),
    "label studio": [
        to_task(name, [replace(each, size=(100, 80), category="cat")], Settings(), is_grouped=True)
        for name, each in POINTS.items()
    ],
    "x-anylabeling": to_label_file("a.jpg", [replace(POINTS["a.jpg"], size=(100, 80), category="cat")]),
}
CSV = "image,name,x,y,visibility,confidence\na.jpg,nose,10.5,20,2,\na.jpg,tail,3,4,1,0.5\nb.png,nose,1,2,2,\n"


@cache
def written(format: str) -> bytes:
    """A good file of a format."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points"
        write_points(path, POINTS, format=format)
        return path.read_bytes()


def points(rng: Rng, folder: Path) -> tuple[str, Action]:
    way = int(rng.integers(8))
    if way < 2:
        kind, path = "csv", folder / "points.csv"
        path.write_bytes(damaged_bytes(rng, pick(rng, (CSV, "1,2\n3,4\n", "x,y\n1,2\n")).encode()))
    elif way < 4:
        kind = pick(rng, ("cvat", "deeplabcut"))
        path = folder / ("points.xml" if kind == "cvat" else "points.csv")
        path.write_bytes(damaged_bytes(rng, written(kind)))
    else:
        kind = pick(rng, list(DOCUMENTS))
        path = folder / "points.json"
        path.write_text(damaged_json(rng, DOCUMENTS[kind]), encoding="utf-8", errors="surrogateescape")

    def read() -> None:
        found = read_objects(path)
        for each in found.objects():
            assert len(each.points) == len(each.names) == len(each.visibility) > 0
            assert np.isfinite(each.points).all()
        if None not in found.images:
            write_points(folder / "again.json", found, overwrite=True)
            again = read_objects(folder / "again.json")
            for one, other in zip(again.objects(), found.objects(), strict=True):
                np.testing.assert_array_equal(one.points, other.points.round(3))
            for format in FORMATS:
                if not FORMATS[format].needs:
                    with suppress(MambaMatcherError):  # such as names that XML cannot hold
                        write_points(folder / f"again-{format}", found, overwrite=True, format=format)
        for name in ("a.jpg", "b/c.png"):
            check_points(read_points(path, name).points, (100, 80))

    return f"points: {kind}", read


WRITERS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "spair": (releases.write_spair, "test"),
    "pf-pascal": (releases.write_pf_pascal, "trn"),
    "pf-willow": (releases.write_pf_willow, "test"),
    "voc-keypoints": (lambda root: releases.write_voc(root, photos=12), "trn"),
    "ap10k": (releases.write_ap10k_coco, "test"),
}


@cache
def release(dataset: str) -> Path:
    """A good release, written once."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-release-"))
    WRITERS[dataset][0](root)
    return root


def annotations(rng: Rng, folder: Path) -> tuple[str, Action]:
    dataset = pick(rng, list(WRITERS))
    root = folder / "data"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(release(dataset), root)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    pictures = [path for path in files if path.suffix in (".jpg", ".png")]
    path = pick(rng, pictures) if rng.integers(8) == 0 else pick(rng, [each for each in files if each not in pictures])
    if path.suffix == ".json":
        path.write_text(damaged_json(rng, json.loads(path.read_text())), encoding="utf-8", errors="surrogateescape")
    else:
        path.write_bytes(damaged_bytes(rng, path.read_bytes()))
    skip = bool(rng.integers(2))

    def read() -> None:
        reading = read_pairs(dataset, WRITERS[dataset][1], root, skip_bad=skip)
        for pair in reading.pairs:
            source, target = pair.points()
            assert source.shape == target.shape
            assert len(source) > 0
            assert np.isfinite(source).all()
            assert np.isfinite(target).all()

    return f"annotations: {dataset}", read


def configuration(rng: Rng, folder: Path) -> tuple[str, Action]:
    preset = pick(rng, list(PRESETS))
    config = PRESETS[preset]()
    if rng.integers(3) == 0:
        keys = [
            *to_dict(config),
            "backbone.kind",
            "backbone.layers",
            "correlation.mamba.state",
            "transfer.",
            "a.b",
            "",
            ".",
        ]
        values = [json.dumps(value) for value in ODD_VALUES if not isinstance(value, str)] + [
            "[" * 50_000,
            "x",
            "=",
            "",
        ]
        changes = [f"{pick(rng, keys)}={pick(rng, values)}" for _ in range(int(rng.integers(1, 3)))]
        return "configuration: key=value", lambda: _same(override(config, changes))
    path = folder / "config.json"
    path.write_text(damaged_json(rng, {"model": to_dict(config)}), encoding="utf-8", errors="surrogateescape")
    return "configuration: file", lambda: _same(read_config(path))


def _same(config: object) -> None:
    """A configuration that is accepted says the same after writing and reading."""
    assert from_dict(type(config), json.loads(json.dumps(to_dict(config)))) == config


def calibration(rng: Rng, folder: Path) -> tuple[str, Action]:
    from mambamatcher.matching.confidence import Calibration

    (folder / "calibration.json").write_text(
        damaged_json(rng, to_dict(Calibration())), encoding="utf-8", errors="surrogateescape"
    )
    return "configuration: calibration", lambda: _same(load_calibration(folder))
