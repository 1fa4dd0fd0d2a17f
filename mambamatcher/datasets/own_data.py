"""A file of annotated images as a dataset: any file of points that is read, with a split by image.

An image is held out by a hash of its file name and the seed, so that it stays where it is when others are added. Pairs
of `val` are among held-out images and pairs of `trn` among the others; `all` does not split.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from os.path import isfile  # unlike Path.is_file, it accepts names that no file can have
from pathlib import Path, PurePosixPath

import numpy as np

from mambamatcher.datasets.faults import Faults, naming
from mambamatcher.datasets.records import BOX_TOLERANCE, AnnotatedImage, Box, Pair, Size
from mambamatcher.datasets.sampling import SHARED, by_category, sample_pairs
from mambamatcher.errors import InputError
from mambamatcher.io.images import read_size
from mambamatcher.io.points import PointSet, read_objects

PAIRS = {"trn": 60_000, "val": 2_000, "all": 2_000}  # at most, where the images allow as many
HELD_OUT = 0.2
LEAST_HELD_OUT = 3  # of each category, so that some pairs remain to validate on
FEWEST_IMAGES = 4  # two to learn from and two to hold out
DEFAULT_CATEGORY = "object"


@dataclass(frozen=True)
class OwnData:
    """A file of annotated images, and the seed of its split."""

    file: Path
    seed: int = 0

    def read(self, root: Path, split: str, faults: Faults) -> list[Pair]:
        """Sample pairs of one split within each category.

        Args:
            root: Folder that the names of the images in the file are relative to.
            split: `trn`, `val` or `all`.
            faults: Takes bad images.

        Raises:
            InputError: The file cannot be read, or no two of its images can be a pair.
        """
        images = _read_images(self.file, root, faults)
        labels = {id(image): label for label, image in images.items()}
        kept = list(images.values())
        if split != "all":
            if len({image.path for image in kept}) < FEWEST_IMAGES and not faults.messages:
                raise InputError(
                    f"{self.file} has points on {len(kept)} images, and a split needs at least {FEWEST_IMAGES}; "
                    "annotate more, or evaluate with --split all"
                )
            held_out = choose_held_out(kept, self.seed)
            kept = [image for image in kept if (image.path in held_out) == (split == "val")]
        groups = by_category(kept)
        shared = min(SHARED, max((len(image.keypoints) for image in kept), default=SHARED))
        pairs = sample_pairs(groups, PAIRS[split], self.seed, lambda image: str(image.path), shared)
        if not pairs and not faults.messages:
            raise InputError(f"{self.file}: {_why_no_pair(groups, split, shared)}")
        # folders may hold images of one name, and an image several objects
        return [replace(pair, name=_name(labels, pair)) for pair in pairs]


def choose_held_out(images: Sequence[AnnotatedImage], seed: int) -> set[Path]:
    """Choose the images to hold out: a fifth, by a hash of their file names, and a few of each category at least.

    Args:
        images: All images. One with objects of several categories is held out from all of them, or from none.
        seed: Another seed holds out others.
    """
    chance = {image.path: _chance(image.path.name, seed) for image in images}
    held_out = {path for path, value in chance.items() if value < HELD_OUT}
    for group in by_category(images).values():
        paths = sorted({image.path for image in group}, key=lambda path: chance[path])
        held_out |= set(paths[: min(LEAST_HELD_OUT, len(paths) // 2)])
    return held_out


def _chance(name: str, seed: int) -> float:
    return int.from_bytes(sha256(f"{seed}:{name}".encode("utf-8", "surrogateescape")).digest()[:8], "big") / 2**64


def _read_images(file: Path, root: Path, faults: Faults) -> dict[str, AnnotatedImage]:
    """Read every object of a file, by a label that is unique in it."""
    objects = read_objects(file).images
    if None in objects:
        raise InputError(f"{file} does not say which images its points are on; write the name of the image with them")
    places = {name: _locate(root, str(name)) for name in objects}
    if not any(places.values()):
        raise InputError(
            f"none of the {len(places)} images of {file}, such as {next(iter(places))!r}, is below {root}; give their "
            "folder with --root"
        )
    images: dict[str, AnnotatedImage] = {}
    seen: dict[str, str | None] = {}
    for name, path in places.items():
        with faults.collect(), naming(f"{file}: image {name!r}"):
            if path is None:
                raise InputError(f"there is no such file below {root}")
            content = sha256(path.read_bytes()).hexdigest()
            if content in seen:
                raise InputError(
                    f"it is the same picture as {seen[content]!r}, so it could be in both splits; keep one"
                )
            seen[content] = name
            for number, points in enumerate(objects[name], start=1):
                label = path.relative_to(root).as_posix() + (f":{number}" if number > 1 else "")
                images[label] = _annotated(path, points)
    return images


def _locate(root: Path, name: str) -> Path | None:
    """Return the image of this name below a folder; folders at the start of the name may be above it."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..")]
    candidates = (root.joinpath(*parts[first:]) for first in range(len(parts)))
    return next((path for path in candidates if isfile(path)), None)


def _annotated(path: Path, points: PointSet) -> AnnotatedImage:
    """Return the visible points of an image with its box, that of the file or one around the points."""
    size = read_size(path)
    if points.size not in (None, size):
        raise InputError(f"it has {size[0]}x{size[1]} pixels, but its points are for {points.size}")
    seen = points.visible()
    if not seen.names:
        raise InputError("it has no visible point; remove it from the file")
    inside = np.clip(seen.points, 0, size)
    far = np.abs(inside - seen.points).max(axis=1) > BOX_TOLERANCE
    if far.any():
        where = int(np.argmax(far))
        x, y = seen.points[where]
        raise InputError(
            f"the point {seen.names[where]!r} at ({x:g}, {y:g}) lies outside its {size[0]}x{size[1]} pixels"
        )
    keypoints = {name: (float(x), float(y)) for name, (x, y) in zip(seen.names, inside, strict=True)}
    box = _box(points.box, inside, size)
    return AnnotatedImage(path, size, points.category or DEFAULT_CATEGORY, keypoints, box)


def _box(given: Box | None, points: np.ndarray, size: Size) -> Box:
    """Return the box inside the image, at least a pixel wide and high."""
    corners = np.array(given).reshape(2, 2) if given is not None else np.array([points.min(axis=0), points.max(axis=0)])
    low = np.clip(corners[0], 0, np.array(size) - 1)
    high = np.clip(corners[1], low + 1, size)
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _name(labels: Mapping[int, str], pair: Pair) -> str:
    return f"{labels[id(pair.source)]}-{labels[id(pair.target)]}:{pair.category}"


def _why_no_pair(groups: Mapping[str, Sequence[AnnotatedImage]], split: str, shared: int) -> str:
    """Say why no two images of a split are a pair."""
    which = {"trn": "images to learn from", "val": "held-out images", "all": "images"}[split]
    largest = max(groups.values(), key=len, default=())
    if len(largest) < 2:
        return f"no category has two {which}; annotate more images, or choose another --split-seed"
    names = " and ".join(f"{image.path.name} has {_some(image.keypoints)}" for image in largest[:2])
    return f"no two {which} share {shared} named points, for example {names}; use the same names in all images"


def _some(names: Iterable[str], shown: int = 3) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:shown]) + (" and others" if len(listed) > shown else "")
