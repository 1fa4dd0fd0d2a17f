"""Check whether a benchmark is present and complete, and which images its splits share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from mambamatcher.datasets.benchmarks import DATASETS
from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.image_cache import without_bad_images
from mambamatcher.datasets.reading import data_root
from mambamatcher.datasets.records import Pair
from mambamatcher.errors import InputError


@dataclass(frozen=True)
class SplitState:
    """State of one split.

    Attributes:
        split: Name of the split.
        pairs: Number of usable pairs.
        expected: Published number of pairs, if known.
        images: Number of images.
        faults: Every bad item with its reason.
        absent: Why the split cannot be read at all, if it cannot.
    """

    split: str
    pairs: int
    expected: int | None
    images: int
    faults: list[str]
    absent: str | None

    @property
    def complete(self) -> bool:
        """Whether all pairs are present and usable."""
        return not self.faults and self.absent is None and self.expected in (None, self.pairs)


@dataclass(frozen=True)
class Verification:
    """State of all splits of a benchmark, and how many images each two of them share."""

    dataset: str
    root: str
    splits: list[SplitState]
    shared_images: dict[str, int]
    get: str

    @property
    def complete(self) -> bool:
        """Whether all splits are complete."""
        return all(split.complete for split in self.splits)


def verify(dataset: str, root: Path | None = None) -> Verification:
    """Read every split, decode every image and compare the counts with the published ones.

    Raises:
        InputError: If the benchmark is rendered, or the data folder does not exist.
    """
    benchmark = DATASETS[dataset]
    if benchmark.rendered:
        raise InputError(
            f"{dataset} is rendered when it is used, so there is nothing to verify; choose a downloaded benchmark"
        )
    folder = data_root(root)
    states, images = [], {}
    for split, expected in benchmark.splits.items():
        faults = Faults()
        try:
            pairs = benchmark.parse(folder, split, faults)
        except InputError as error:
            states.append(SplitState(split, 0, expected, 0, [], str(error)))
            continue
        good = without_bad_images(pairs, faults)
        images[split] = _images(pairs)
        states.append(SplitState(split, len(good), expected, len(images[split]), faults.messages, None))
    return Verification(dataset, str(folder), states, _shared(images), benchmark.get)


def _images(pairs: Sequence[Pair]) -> set[str]:
    """Return file names: releases store the same photo under each of its categories."""
    return {image.path.name for pair in pairs for image in (pair.source, pair.target)}


def _shared(images: Mapping[str, set[str]]) -> dict[str, int]:
    """Count the images that two splits share. Subsets of a split (small, noleak) are left out."""
    parts = [split for split in images if "-" not in split]
    shared = {f"{a} and {b}": len(images[a] & images[b]) for a, b in combinations(parts, 2)}
    return {splits: count for splits, count in shared.items() if count}
