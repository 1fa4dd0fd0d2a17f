"""Annotated images, and how several of them agree on the points of a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from mambamatcher.errors import InputError
from mambamatcher.io.points import Pixels, PointSet, check_points, read_annotations, read_points
from mambamatcher.matching.matcher import LoadedImage, Matcher, Readable

AGREEMENT = 0.05  # of the target's longer side: how near to each other the answers of references count as one


@dataclass(frozen=True)
class Reference:
    """An annotated image, read once, with its visible points."""

    loaded: LoadedImage
    points: PointSet
    path: Path | None = None  # where it was read from


@dataclass(frozen=True, kw_only=True)
class TransferredPoints:
    """Where the references' points lie in one target, in its pixels."""

    names: tuple[str, ...]
    points: Pixels
    confidence: Float[np.ndarray, " keypoint"]
    matched: Bool[np.ndarray, " keypoint"]
    size: tuple[int, int]


def read_references(
    matcher: Matcher, sources: Sequence[Path], points_file: Path, category: str | None = None
) -> list[Reference]:
    """Read annotated images.

    Args:
        matcher: The matcher that will use them.
        sources: The images.
        points_file: Their points, in any format; with several images each is looked up by its file name.
        category: That of the objects, where the file has several categories.

    Raises:
        InputError: An image or the points cannot be used.
    """
    if len(sources) > 1 and None in read_annotations(points_file, category):
        raise InputError(
            f"{points_file} does not say which image its points are on, but {len(sources)} are given; use COCO, "
            "a CSV with a column 'image', or JSON with 'images'"
        )
    references = []
    for source in sources:
        loaded, points = matcher.read(source), read_points(points_file, source, category).visible()
        if not len(points.names):
            raise InputError(f"{points_file} has no visible point for {source.name}")
        check_points(points.points, loaded.image.size)
        references.append(Reference(loaded, points, source.absolute()))
    return references


def propagate_to(matcher: Matcher, references: Sequence[Reference], target: Readable) -> TransferredPoints:
    """Match every reference with one target and combine their answers, point by point."""
    loaded = matcher.read(target)
    names = tuple(dict.fromkeys(name for reference in references for name in reference.points.names))
    answers: dict[str, list[tuple[Float[np.ndarray, 2], float]]] = {name: [] for name in names}
    for reference in references:
        result = matcher.match(reference.loaded, loaded, reference.points.points)
        for name, point, confidence in zip(reference.points.names, result.points, result.confidence, strict=True):
            answers[name].append((point, float(confidence)))
    combined = [
        combine_answers(np.stack([point for point, _ in each]), np.array([sure for _, sure in each]), loaded.image.size)
        for each in answers.values()
    ]
    confidence = np.array([sure for _, sure in combined])
    return TransferredPoints(
        names=names,
        points=np.stack([point for point, _ in combined]),
        confidence=confidence,
        matched=confidence >= matcher.calibration.threshold,
        size=loaded.image.size,
    )


def combine_answers(
    points: Float[np.ndarray, "reference 2"], confidence: Float[np.ndarray, " reference"], size: tuple[int, int]
) -> tuple[Float[np.ndarray, "2"], float]:
    """Let the references vote on one point: the place with the most confidence around it wins.

    A mean would lie between two different answers, where nobody put the point; the most confident alone would ignore
    that others agree on another place. So each answer collects the confidence of those near it, and the winner is
    refined to their weighted mean. Its confidence is the mean of its own and its supporters', doubt of those that
    disagree counted in, each weighted by its confidence: a reference that has no idea does not spoil a sure one.
    """
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1) / (AGREEMENT * max(size))
    nearness = np.exp(-0.5 * distance**2)
    confidence = confidence.clip(1e-9)  # so that nothing is divided by zero
    winner = int(np.argmax(nearness @ confidence))
    votes = nearness[winner] * confidence
    return votes @ points / votes.sum(), float(votes @ confidence / confidence.sum())
