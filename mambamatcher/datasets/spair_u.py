"""SPair-U (Mariotti et al. 2025): the test pairs of SPair-71k with keypoints that no model was trained on.

Only annotations are published, in SPair-71k's format. The list of pairs and the images are those of SPair-71k, either
linked into this folder or in the SPair-71k folder next to it. Pairs without a new annotation are not part of it.
"""

from pathlib import Path

from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.reading import locate, read_text
from mambamatcher.datasets.records import Pair
from mambamatcher.datasets.spair import annotation_paths, parse_pair
from mambamatcher.errors import InputError


def read_spair_u(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read the re-annotated pairs of one split."""
    folder = locate(root, "SPair-U")
    listing = _own_or_spair(folder, f"Layout/large/{split}.txt")
    images = _own_or_spair(folder, "JPEGImages")
    annotations = folder / "PairAnnotation" / split
    if not annotations.is_dir():
        raise InputError(f"{annotations} is missing")

    pairs = []
    for name in read_text(listing).split():
        path = next((path for path in annotation_paths(annotations, name) if path.exists()), None)
        if path is not None:
            with faults.collect():
                pairs.append(parse_pair(path, images))
    return pairs


def _own_or_spair(folder: Path, name: str) -> Path:
    own = folder / name
    return own if own.exists() else folder.parent / "SPair-71k" / name
