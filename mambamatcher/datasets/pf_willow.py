"""PF-WILLOW (Ham et al. 2018): 900 test pairs of ten classes with ten keypoints each, in one CSV file. No boxes."""

from functools import cache
from pathlib import Path

from mambamatcher.datasets.faults import Faults, naming
from mambamatcher.datasets.reading import locate, read_csv
from mambamatcher.datasets.records import AnnotatedImage, Pair
from mambamatcher.errors import InputError
from mambamatcher.io.images import read_size

KEYPOINTS = 10


def read_pf_willow(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read the test pairs."""
    folder = locate(root, "PF-WILLOW", "PF-dataset")
    listing = folder / f"{split}_pairs.csv"
    size = cache(read_size)

    pairs = []
    for number, row in enumerate(read_csv(listing), start=2):
        with faults.collect(), naming(listing):
            cells = list(row.values())
            if len(cells) != 2 + 4 * KEYPOINTS:
                raise InputError(f"line {number} has {len(cells)} columns instead of {2 + 4 * KEYPOINTS}")
            images = []
            for column, first in ((0, 2), (1, 2 + 2 * KEYPOINTS)):
                category, name = Path(cells[column]).parts[-2:]
                x = map(float, cells[first : first + KEYPOINTS])
                y = map(float, cells[first + KEYPOINTS : first + 2 * KEYPOINTS])
                keypoints = {str(index): point for index, point in enumerate(zip(x, y, strict=True))}
                path = folder / category / name
                images.append(AnnotatedImage(path, size(path), category, keypoints))
            source, target = images
            name = f"{number:04d}-{source.path.stem}-{target.path.stem}:{source.category}"
            pairs.append(Pair(name, source, target, source.category))
    return pairs
