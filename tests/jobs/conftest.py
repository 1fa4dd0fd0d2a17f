"""A small model and a folder of small pictures, one of them broken."""

from pathlib import Path

import pytest
import torch

from mambamatcher import Matcher
from mambamatcher.tools.propagate import Reference, read_references
from tests.tools.conftest import picture

TARGETS = 6


@pytest.fixture(scope="package")
def matcher() -> Matcher:
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="untrained"):
        return Matcher.from_preset("nearest", ["side=96", "backbone.weights=random"])


@pytest.fixture(scope="package")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    (folder / "targets" / "more").mkdir(parents=True)
    picture(seed=1).save(folder / "reference.png")
    (folder / "points.json").write_text('{"points": [[10, 20], [45, 30], [70, 50]], "names": ["nose", "tail", "paw"]}')
    for number in range(TARGETS):
        picture(seed=10 + number).save(folder / "targets" / f"{number}.png")
    picture(120, 40, seed=30).save(folder / "targets" / "more" / "wide.png")
    (folder / "targets" / "broken.jpg").write_bytes(b"no picture")
    return folder


@pytest.fixture(scope="package")
def references(matcher, work) -> list[Reference]:
    return read_references(matcher, [work / "reference.png"], work / "points.json")
