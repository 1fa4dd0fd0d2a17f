"""Sample pairs with a fixed seed from images that come without a list of pairs."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from mambamatcher.datasets.records import AnnotatedImage, Pair

SHARED = 3  # keypoints that two images must share to be a pair

Key = Callable[[AnnotatedImage], str]


def by_category(images: Sequence[AnnotatedImage]) -> dict[str, list[AnnotatedImage]]:
    """Group images by category, categories in alphabetical order."""
    groups: dict[str, list[AnnotatedImage]] = defaultdict(list)
    for image in images:
        groups[image.category].append(image)
    return dict(sorted(groups.items()))


def sharing_pairs(images: Sequence[AnnotatedImage], differ: Key, shared: int = SHARED) -> np.ndarray:
    """Return the indices `[pair, 2]` of all ordered pairs that share enough keypoints and have different keys."""
    names = sorted({name for image in images for name in image.keypoints})
    shown = np.zeros((len(images), len(names)), dtype=np.float32)
    for row, image in enumerate(images):
        shown[row] = [name in image.keypoints for name in names]
    _, keys = np.unique([differ(image) for image in images], return_inverse=True)
    return np.argwhere((shown @ shown.T >= shared) & (keys[:, None] != keys[None, :]))


def sample_pairs(
    groups: dict[str, list[AnnotatedImage]], count: int, seed: int, differ: Key, shared: int = SHARED
) -> list[Pair]:
    """Sample pairs within groups, as evenly over the groups as their sizes allow, in random order.

    Args:
        groups: Images by group. The group of a pair becomes its category.
        count: Number of pairs, fewer if there are not enough.
        seed: Seed of the choice and of the order.
        differ: Key in which the two images of a pair must differ.
        shared: Keypoints that they must share.
    """
    candidates = {name: sharing_pairs(images, differ, shared) for name, images in groups.items()}
    shares = even_shares({name: len(found) for name, found in candidates.items()}, count)
    pairs = []
    for number, (name, found) in enumerate(candidates.items()):
        # each group has its own generator, so that its pairs do not depend on other groups
        chosen = np.random.default_rng([seed, number]).permutation(len(found))[: shares[name]]
        images = groups[name]
        pairs += [_pair(images[source], images[target], name) for source, target in found[chosen]]
    order = np.random.default_rng(seed).permutation(len(pairs))
    return [pairs[k] for k in order]


def even_shares(available: dict[str, int], count: int) -> dict[str, int]:
    """Divide `count` over the groups: small groups are used up, and the others share the rest evenly."""
    shares, left = {}, count
    for done, (name, size) in enumerate(sorted(available.items(), key=lambda item: item[1])):
        shares[name] = min(size, left // (len(available) - done))
        left -= shares[name]
    return shares


def _pair(source: AnnotatedImage, target: AnnotatedImage, category: str) -> Pair:
    return Pair(f"{source.path.stem}-{target.path.stem}:{category}", source, target, category)
