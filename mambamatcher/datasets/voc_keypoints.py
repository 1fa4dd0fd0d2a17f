"""PASCAL VOC 2011 photos with the Berkeley keypoints: a training split and a split for model selection.

A tenth of the photos, chosen by a hash of their name, is held out. Pairs of `selection` are among held-out photos and
pairs of `trn` among the others, in both folders alike, so that no object of a held-out photo is trained on.

`trn-small` has the pairs among a quarter of the training photos, few enough to cache a backbone's features.

To measure keypoints that a model was not trained on, `trn-seen` leaves out a third of each category's keypoint names,
and `selection-unseen` contains only those.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from mambamatcher.datasets.faults import Faults, naming
from mambamatcher.datasets.reading import read_json
from mambamatcher.datasets.records import AnnotatedImage, Pair, mirror_name
from mambamatcher.datasets.sampling import SHARED, by_category, sample_pairs
from mambamatcher.errors import InputError

FOLDERS = ("VOC2011-keypoints", "VOC2011-instances")
PAIRS = {"trn": 60_000, "selection": 6_000, "trn-small": 60_000, "trn-seen": 60_000, "selection-unseen": 6_000}
SEED = 0
_HELD_OUT = 0.1
_SMALL = 0.34  # photos whose hash lies below it and that are not held out are those of `trn-small`
_UNSEEN_PART = 3  # one in three of a category's keypoint names


def read_voc(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read pairs from both folders together."""
    return voc_pairs([root / name for name in FOLDERS], split, faults)


def read_voc_keypoints(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read pairs from the first folder: one clear object per photo."""
    return voc_pairs([_own(root, FOLDERS[0])], split, faults)


def read_voc_instances(root: Path, split: str, faults: Faults) -> list[Pair]:
    """Read pairs from the second folder: cropped objects, some small or truncated."""
    return voc_pairs([_own(root, FOLDERS[1])], split, faults)


def voc_pairs(
    folders: Iterable[Path], split: str, faults: Faults, count: int | None = None, seed: int = SEED
) -> list[Pair]:
    """Sample pairs of one split within each class, evenly over the classes. Two crops of one photo are not a pair."""
    images = [image for folder in folders for image in read_images(folder, faults)]
    half, _, part = split.partition("-")
    kept = [image for image in images if held_out(photo(image.path)) == (half == "selection")]
    if part == "small":
        kept = [image for image in kept if _digest(photo(image.path)) < _SMALL * 2**64]
    if part in ("", "small"):
        return sample_pairs(by_category(kept), count or PAIRS[split], seed, _photo_of)
    unseen = unseen_names(by_category(images))
    shown = [_only(image, unseen[image.category], part == "unseen") for image in kept]
    return sample_pairs(by_category(shown), count or PAIRS[split], seed, _photo_of, 1 if part == "unseen" else SHARED)


def unseen_names(groups: Mapping[str, Iterable[AnnotatedImage]]) -> dict[str, set[str]]:
    """Choose a third of each category's keypoint names. Left and right stay together, as mirroring exchanges them."""
    chosen = {}
    for category, images in groups.items():
        names = {name for image in images for name in image.keypoints}
        kinds = sorted({min(name, mirror_name(name)) for name in names}, key=lambda kind: _digest(f"{category}:{kind}"))
        unseen = set(kinds[: max(1, round(len(kinds) / _UNSEEN_PART))])
        chosen[category] = {name for name in names if min(name, mirror_name(name)) in unseen}
    return chosen


def read_images(folder: Path, faults: Faults) -> list[AnnotatedImage]:
    """Read every annotated image of a folder, with the keypoints that are visible and inside the image."""
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
    """Return whether a photo belongs to the selection split. This depends only on its name."""
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
