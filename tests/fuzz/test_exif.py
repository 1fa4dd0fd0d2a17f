"""A photo held sideways: on every path into the package it is turned upright, and points are those of what one sees."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.cli import app
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.dataset import PairDataset
from mambamatcher.datasets.image_cache import read_image
from mambamatcher.tools.propagate import propagate_to, read_references
from mambamatcher.web.uploads import decode
from tests.datasets import releases
from tests.fuzz.pictures import ORIENTATION, STORED, encode
from tests.tools.conftest import picture


def sideways(upright: Image.Image, path) -> None:
    """Store a picture turned, with the EXIF entry that turns it back."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    path.write_bytes(encode(upright.transpose(STORED[6]), "PNG", exif=exif))


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    torch.manual_seed(0)
    return Matcher(MambaMatcher(presets.tiny()))


def test_match_propagate_and_serve_see_the_upright_picture(matcher, tmp_path, monkeypatch):
    for number, name in enumerate(("source", "target")):
        upright = picture(seed=number)
        upright.save(tmp_path / f"{name}.png")
        sideways(upright, tmp_path / f"{name}-turned.png")
    points = [(80, 50), (10, 20)]  # the first lies outside the picture as it is stored
    (tmp_path / "points.json").write_text(json.dumps(points))
    plain, turned = ([tmp_path / f"{name}{end}.png" for name in ("source", "target")] for end in ("", "-turned"))
    expected = matcher.match(*plain, points).points
    for given in (turned, [path.read_bytes() for path in turned], [Image.open(path) for path in turned]):
        np.testing.assert_array_equal(matcher.match(*given, points).points, expected)

    references = read_references(matcher, turned[:1], tmp_path / "points.json")
    found = propagate_to(matcher, references, turned[1])
    np.testing.assert_allclose(found.points, expected)
    assert found.size == (90, 60)

    uploaded = decode(turned[0].read_bytes(), "upload", 10**6)
    assert uploaded.tobytes() == picture(seed=0).tobytes()

    monkeypatch.setattr("mambamatcher.cli.match.load_matcher", lambda *_: matcher)
    words = ["match", *map(str, turned), "--points-file", str(tmp_path / "points.json"), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["target_size"] == [90, 60]
    np.testing.assert_allclose([match["target"] for match in said["matches"]], expected)


def rewrite_turned(folder) -> None:
    """Turn every picture of a release, keeping what one sees."""
    for path in [*folder.rglob("*.jpg"), *folder.rglob("*.png")]:
        sideways(Image.open(path).convert("RGB"), path)


@pytest.mark.parametrize(
    ("dataset", "write", "split"),
    [
        ("spair", releases.write_spair, "test"),
        ("pf-pascal", releases.write_pf_pascal, "test"),
        ("pf-willow", releases.write_pf_willow, "test"),
        ("voc-keypoints", lambda root: releases.write_voc(root, photos=8), "trn"),
        ("ap10k", releases.write_ap10k_coco, "test"),
    ],
)
def test_benchmarks_and_training_see_the_upright_picture(dataset, write, split, tmp_path):
    for name in ("plain", "turned"):
        write(tmp_path / name)
    rewrite_turned(tmp_path / "turned")
    pairs = [read_pairs(dataset, split, tmp_path / name).pairs for name in ("plain", "turned")]
    assert [pair.name for pair in pairs[0]] == [pair.name for pair in pairs[1]]
    plain, turned = (each[0] for each in pairs)
    assert turned.target.size == plain.target.size
    assert read_image(turned.target).tobytes() == read_image(plain.target).tobytes()
    samples = [PairDataset(each[:1], 56)[0] for each in pairs]
    assert torch.equal(samples[0].source_image, samples[1].source_image)
    assert torch.equal(samples[0].target_points, samples[1].target_points)
