"""Pairs drawn by seed from images that come without a list of pairs."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from mambamatcher.datasets.records import AnnotatedImage, Pair

SHARED = 3  # keypoints two images must both show to be a pair

Key = Callable[[AnnotatedImage], str]


def by_category(images: Sequence[AnnotatedImage]) -> dict[str, list[AnnotatedImage]]:
    """Group images by category, categories in alphabetical order."""
    groups: dict[str, list[AnnotatedImage]] = defaultdict(list)
    for image in images:
        groups[image.category].append(image)
    return dict(sorted(groups.items()))


def sharing_pairs(images: Sequence[AnnotatedImage], differ: Key, shared: int = SHARED) -> np.ndarray:
    """Return the indices `[pair, 2]` of all ordered pairs that share enough keypoints and differ in the key."""
    names = sorted({name for image in images for name in image.keypoints})
    shown = np.zeros((len(images), len(names)), dtype=np.float32)
    for row, image in enumerate(images):
        shown[row] = [name in image.keypoints for name in names]
    _, keys = np.unique([differ(image) for image in images], return_inverse=True)
    return np.argwhere((shown @ shown.T >= shared) & (keys[:, None] != keys[None, :]))


def sample_pairs(
    groups: dict[str, list[AnnotatedImage]], count: int, seed: int, differ: Key, shared: int = SHARED
) -> list[Pair]:
    """Draw `count` pairs by seed, as evenly over the groups as their sizes allow, in an order drawn by seed too."""
    candidates = {name: sharing_pairs(images, differ, shared) for name, images in groups.items()}
    shares = even_shares({name: len(found) for name, found in candidates.items()}, count)
    pairs = []
    for number, (name, found) in enumerate(candidates.items()):
        # every group has its own stream, so one group's size does not change another group's pairs
        chosen = np.random.default_rng([seed, number]).permutation(len(found))[: shares[name]]
        images = groups[name]
        pairs += [_pair(images[source], images[target], name) for source, target in found[chosen]]
    order = np.random.default_rng(seed).permutation(len(pairs))
    return [pairs[k] for k in order]


def even_shares(available: dict[str, int], count: int) -> dict[str, int]:
    """Divide `count` over the groups: small groups give all they have, the others share the rest evenly."""
    shares, left = {}, count
    for done, (name, size) in enumerate(sorted(available.items(), key=lambda item: item[1])):
        shares[name] = min(size, left // (len(available) - done))
        left -= shares[name]
    return shares


def _pair(source: AnnotatedImage, target: AnnotatedImage, category: str) -> Pair:
    return Pair(f"{source.path.stem}-{target.path.stem}:{category}", source, target, category)
