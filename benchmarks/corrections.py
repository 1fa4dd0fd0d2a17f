"""What corrections are worth: PCK of the remaining images after some were corrected, chosen by us or at random.

    python -m benchmarks.corrections --root data --save benchmarks/results --picture docs/pictures/corrections.png

The images are the held-out photos of VOC (the split `selection`) of the five categories that have the most. One image
is the reference; then images are corrected one after the other, and a correction is the ground truth. Every image is
matched with every other once; the rounds are then recombined from these answers exactly as `propagate` does it.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mambamatcher.cli.match import load_matcher
from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.records import AnnotatedImage
from mambamatcher.datasets.voc_keypoints import FOLDERS, held_out, photo, read_images
from mambamatcher.matching.matcher import Matcher
from mambamatcher.tools.rounds import describe_image

CATEGORIES = 5


@dataclass(frozen=True)
class Answers:
    """All images of a category matched with each other."""

    images: list[AnnotatedImage]
    names: list[str]  # of the category's keypoints
    points: np.ndarray  # [source, target, name, 2]: pixels of the target; NaN where the source does not show it
    confidence: np.ndarray  # [source, target, name]
    descriptors: np.ndarray  # [image, channel]


def held_out_images(root: Path) -> dict[str, list[AnnotatedImage]]:
    """Return the held-out images with a keypoint, by category, the largest categories first."""
    faults = Faults()
    found = [image for name in FOLDERS for image in read_images(root / name, faults)]
    faults.settle(skip=False)
    kept = [image for image in found if held_out(photo(image.path)) and image.keypoints]
    largest = Counter(image.category for image in kept).most_common()
    return {category: [image for image in kept if image.category == category] for category, _ in largest}


def match_all(matcher: Matcher, images: list[AnnotatedImage]) -> Answers:
    """Match every image with every other."""
    names = sorted({name for image in images for name in image.keypoints})
    loaded = [matcher.read(image.path) for image in images]
    points = np.full((len(images), len(images), len(names), 2), np.nan)
    confidence = np.zeros(points.shape[:3])
    for source, image in enumerate(images):
        asked = [names.index(name) for name in image.keypoints]
        for target in range(len(images)):
            if source != target:
                pair = matcher.prepare(loaded[source], loaded[target])
                result = pair.match([image.keypoints[names[index]] for index in asked])
                points[source, target, asked], confidence[source, target, asked] = result.points, result.confidence
    descriptors = np.stack([describe_image(matcher.encode(each)) for each in loaded])
    return Answers(images, names, points, confidence, descriptors)
