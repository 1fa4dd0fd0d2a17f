"""A folder to propagate over and a benchmark to evaluate on, both small."""

from pathlib import Path

import pytest

from tests.datasets import releases
from tests.tools.conftest import picture

TARGETS = 24
PAIRS = 24


@pytest.fixture(scope="package")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    (folder / "targets").mkdir()
    picture(seed=1).save(folder / "reference.png")
    (folder / "points.json").write_text('{"points": [[10, 20], [45, 30], [70, 50]], "names": ["nose", "tail", "paw"]}')
    for number in range(TARGETS):
        picture(seed=10 + number).save(folder / "targets" / f"{number:02d}.png")
    (folder / "targets" / "broken.jpg").write_bytes(b"no picture")
    releases.write_spair(folder, [releases.spair_annotation(f"{n:06d}-one-two:cat") for n in range(PAIRS)])
    return folder
