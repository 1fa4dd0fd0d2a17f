import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from mambamatcher.datasets.synthetic import SyntheticPairs
from mambamatcher.datasets.voc_keypoints import held_out


def write_photos(folder: Path, count: int, *, kept_out: int, size: int = 84) -> None:
    """Write rendered dogs in the format of the VOC keypoints, `kept_out` of them under names of the selection split."""
    names = (f"2009_{number:06}" for number in range(10_000))
    wanted = {True: kept_out, False: count - kept_out}
    chosen = []
    for name in names:
        if wanted[held_out(name)]:
            wanted[held_out(name)] -= 1
            chosen.append(name)
    (folder / "images" / "dog").mkdir(parents=True)
    entries = []
    for name, pair in zip(chosen, SyntheticPairs(count, seed=1, size=(size, size), categories=["dog"]), strict=False):
        view = pair.source
        Image.fromarray(view.image).save(folder / "images" / "dog" / f"{name}.png")
        points = zip(view.keypoint_names, view.keypoints.tolist(), view.visible.tolist(), strict=True)
        entries.append(
            {
                "image": f"dog/{name}.png",
                "category": "dog",
                "width": size,
                "height": size,
                "bbox": [float(v) for v in view.bbox],
                "kps": {key: [x, y, int(visible)] for key, (x, y), visible in points},
            }
        )
    (folder / "annotations.json").write_text(json.dumps(entries))


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("data")
    write_photos(root / "VOC2011-keypoints", 24, kept_out=8)
    return root


TINY_RUN = ("--preset", "tiny", "--dataset", "voc-keypoints", "--validation-pairs", "10", "workers=0")


def command(root: Path, out: Path, *extra: str) -> list[str]:
    return [sys.executable, "-m", "mambamatcher", "train", *TINY_RUN, "--root", str(root), "--out", str(out), *extra]


def finish(arguments: list[str]) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr
