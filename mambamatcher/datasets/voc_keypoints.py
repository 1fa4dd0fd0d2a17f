"""PASCAL VOC 2011 photos with the Berkeley keypoints: the set to train on, and the selection split to decide on.

A tenth of the photos, chosen by a hash of their name, is held out: the `selection` split is made of pairs among those
alone and `trn` of pairs among the others, in both folders alike, so an object of a held-out photo is never trained on.

To learn what a model does away from the keypoints it was taught, `trn-seen` leaves out a third of each category's
keypoint names, and `selection-unseen` has nothing but those.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from mambamatcher.datasets.faults import Faults, naming
from mambamatcher.datasets.left_right import mirror_name
from mambamatcher.datasets.reading import read_json
from mambamatcher.datasets.records import AnnotatedImage, Pair
from mambamatcher.datasets.sampling import SHARED, by_category, sample_pairs
from mambamatcher.errors import InputError

FOLDERS = ("VOC2011-keypoints", "VOC2011-instances")
PAIRS = {"trn": 60_000, "selection": 6_000, "trn-seen": 60_000, "selection-unseen": 6_000}
SEED = 0
_HELD_OUT = 0.1
_UNSEEN_PART = 3  # of a category's keypoint names, one in so many


def read_voc(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read pairs over both folders."""
    return voc_pairs([root / name for name in FOLDERS], split, faults)


def read_voc_keypoints(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read pairs of the first folder alone: one clear object a photo."""
    return voc_pairs([_own(root, FOLDERS[0])], split, faults)


def read_voc_instances(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read pairs of the second folder alone: cropped objects, small and truncated ones among them."""
    return voc_pairs([_own(root, FOLDERS[1])], split, faults)


def voc_pairs(
    folders: Iterable[Path], split: str, faults: Faults, count: int | None = None, seed: int = SEED
) -> list[Pair]:
    """Draw same-class pairs of one split by seed, evenly over the classes; two crops of one photo are no pair."""
    images = [image for folder in folders for image in read_images(folder, faults)]
    half, _, part = split.partition("-")
    kept = [image for image in images if held_out(photo(image.path)) == (half == "selection")]
    if not part:
        return sample_pairs(by_category(kept), count or PAIRS[split], seed, _photo_of)
    unseen = unseen_names(by_category(images))
    shown = [_only(image, unseen[image.category], part == "unseen") for image in kept]
    return sample_pairs(by_category(shown), count or PAIRS[split], seed, _photo_of, 1 if part == "unseen" else SHARED)


def unseen_names(groups: Mapping[str, Iterable[AnnotatedImage]]) -> dict[str, set[str]]:
    """Choose a third of each category's keypoint names; left and right go together, as mirroring exchanges them."""
    chosen = {}
    for category, images in groups.items():
        names = {name for image in images for name in image.keypoints}
        kinds = sorted({min(name, mirror_name(name)) for name in names}, key=lambda kind: _digest(f"{category}:{kind}"))
        unseen = set(kinds[: max(1, round(len(kinds) / _UNSEEN_PART))])
        chosen[category] = {name for name in names if min(name, mirror_name(name)) in unseen}
    return chosen


def read_images(folder: Path, faults: Faults) -> list[AnnotatedImage]:
    """Read every annotated image of a folder, with the keypoints that are visible and inside the picture."""
    listing = folder / "annotations.json"
    content = read_json(listing)
    if not isinstance(content, list):
        raise InputError(f"{listing}: expected a list of images")
    images = []
    for entry in content:
        with faults.collect(), naming(listing):
            images.append(_image(entry, folder / "images"))
    return images


def photo(path: Path) -> str:
    """Return the VOC name of the photo an image was made from: `2009_001517_1` is a crop of `2009_001517`."""
    return "_".join(path.stem.split("_")[:2])


def held_out(name: str) -> bool:
    """Tell whether a photo belongs to the selection split; the answer depends on its name and nothing else."""
    return _digest(name) < _HELD_OUT * 2**64


def _digest(name: str) -> int:
    return int.from_bytes(sha256(f"{SEED}:{name}".encode()).digest()[:8], "big")


def _only(image: AnnotatedImage, names: set[str], inside: bool) -> AnnotatedImage:
    kept = {name: point for name, point in image.keypoints.items() if (name in names) == inside}
    return replace(image, keypoints=kept)


def _image(entry: dict[str, Any], folder: Path) -> AnnotatedImage:
    size = width, height = entry["width"], entry["height"]
    left, top, right, bottom = map(float, entry["bbox"])
    keypoints = {
        name: (float(x), float(y))
        for name, (x, y, visible) in entry["kps"].items()
        if visible and 0 <= x <= width and 0 <= y <= height
    }
    return AnnotatedImage(folder / entry["image"], size, entry["category"], keypoints, (left, top, right, bottom))


def _photo_of(image: AnnotatedImage) -> str:
    return photo(image.path)


def _own(root: Path, name: str) -> Path:
    return root / name if (root / name).is_dir() else root
