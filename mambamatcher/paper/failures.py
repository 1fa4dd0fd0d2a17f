"""Failure cases found automatically: left taken for right, and the right part on the wrong instance.

Sides are confused if a wrong prediction lies within alpha of the keypoint's counterpart on the other side. A part is on
another instance if a wrong prediction lies outside the object's box by more than alpha, and matching it back leads to
the source keypoint: the model sees the same part there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.records import Pair, has_side, mirror_name
from mambamatcher.matching.matcher import Matcher
from mambamatcher.paper.opened_pair import OpenedPair, is_correct, open_pair, predicted_points

SIDE, INSTANCE = "left taken for right", "right part, wrong instance"


@dataclass(frozen=True)
class Failure:
    """One wrong keypoint of a known kind of failure."""

    kind: str
    opened: OpenedPair
    keypoint: int
    predicted: Float[np.ndarray, "2"]  # target pixels


@dataclass(frozen=True)
class Census:
    """Counts over all keypoints.

    Attributes:
        keypoints: Number of keypoints.
        wrong: Number of wrong predictions.
        wrong_with_side: Those whose name says left or right. Only they can be a left/right confusion.
        failures: Those of a known kind.
    """

    keypoints: int
    wrong: int
    wrong_with_side: int
    failures: list[Failure]

    def count(self, kind: str) -> int:
        """Count the failures of one kind."""
        return sum(failure.kind == kind for failure in self.failures)


def find_failures(matcher: Matcher, pairs: Sequence[Pair], alpha: float) -> Census:
    """Match every pair and classify the wrong keypoints."""
    keypoints, wrong, wrong_with_side = 0, 0, 0
    failures: list[Failure] = []
    for pair in pairs:
        opened = open_pair(matcher, pair)
        predicted = predicted_points(opened, matcher.model)
        missed = np.flatnonzero(~is_correct(opened, predicted, alpha))
        keypoints, wrong = keypoints + len(predicted), wrong + len(missed)
        wrong_with_side += sum(has_side(pair.names[k]) for k in missed)
        if len(missed):
            failures += _classify(matcher, opened, predicted, missed, alpha)
    return Census(keypoints, wrong, wrong_with_side, failures)


def _classify(
    matcher: Matcher, opened: OpenedPair, predicted: np.ndarray, missed: np.ndarray, alpha: float
) -> Iterator[Failure]:
    names = opened.pair.names
    outside = [int(k) for k in missed if _is_outside(opened, predicted[k], alpha)]
    back = matcher.match(opened.target, opened.source, predicted[outside]).points if outside else np.zeros((0, 2))
    queries = opened.pair.points()[0]
    return_errors = {k: np.linalg.norm(point - queries[k]) for k, point in zip(outside, back, strict=True)}
    for k in map(int, missed):
        other = opened.pair.target.keypoints.get(mirror_name(names[k])) if has_side(names[k]) else None
        if other is not None and np.linalg.norm(predicted[k] - other) <= alpha * opened.size:
            yield Failure(SIDE, opened, k, predicted[k])
        elif k in return_errors and return_errors[k] <= alpha * _source_size(opened):
            yield Failure(INSTANCE, opened, k, predicted[k])


def _is_outside(opened: OpenedPair, point: np.ndarray, alpha: float) -> bool:
    box = opened.pair.target.bbox
    if box is None:
        return False
    distance = np.maximum(np.array(box[:2]) - point, point - np.array(box[2:])).max()
    return bool(distance > alpha * opened.size)


def _source_size(opened: OpenedPair) -> float:
    box = opened.pair.source.bbox
    return float(max(opened.source.size)) if box is None else max(box[2] - box[0], box[3] - box[1])
