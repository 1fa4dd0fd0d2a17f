"""Failure cases found without looking: left taken for right, and the right part on the wrong instance.

A side is confused where a wrong prediction lies within alpha of the keypoint's counterpart on the other side. A part
is on another instance where a wrong prediction lies outside the object's box by more than alpha, and yet matching it
back leads to the very point asked for: the model sees the same part there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.records import Pair, has_side, mirror_name
from mambamatcher.matching.matcher import Matcher
from mambamatcher.paper.opened_pair import Case, is_right, open_case, predicted_points

SIDE, INSTANCE = "left taken for right", "right part, wrong instance"


@dataclass(frozen=True)
class Failure:
    """One keypoint that failed in a way with a name."""

    kind: str
    case: Case
    keypoint: int
    predicted: Float[np.ndarray, "2"]  # target pixels


@dataclass(frozen=True)
class Census:
    """How many of all keypoints are wrong, and how many of those in a way with a name."""

    keypoints: int
    wrong: int
    wrong_with_side: int  # those whose name says left or right: only they can be found on the other side
    failures: list[Failure]

    def count(self, kind: str) -> int:
        """Count the failures of one kind."""
        return sum(failure.kind == kind for failure in self.failures)


def find_failures(matcher: Matcher, pairs: Sequence[Pair], alpha: float) -> Census:
    """Match every pair and sort what is wrong."""
    keypoints, wrong, wrong_with_side = 0, 0, 0
    failures: list[Failure] = []
    for pair in pairs:
        case = open_case(matcher, pair)
        predicted = predicted_points(case, matcher.model)
        right = is_right(case, predicted, alpha)
        keypoints, wrong = keypoints + len(right), wrong + int((~right).sum())
        wrong_with_side += sum(has_side(pair.names[k]) for k in np.flatnonzero(~right))
        if not right.all():
            failures += _failures_of(matcher, case, predicted, np.flatnonzero(~right), alpha)
    return Census(keypoints, wrong, wrong_with_side, failures)


def _failures_of(
    matcher: Matcher, case: Case, predicted: np.ndarray, wrong: np.ndarray, alpha: float
) -> Iterator[Failure]:
    names = case.pair.names
    away = [int(k) for k in wrong if _outside(case, predicted[k], alpha)]
    back = matcher.match(case.target, case.source, predicted[away]).points if away else np.zeros((0, 2))
    asked = case.pair.points()[0]
    returned = {k: np.linalg.norm(point - asked[k]) for k, point in zip(away, back, strict=True)}
    for k in map(int, wrong):
        other = case.pair.target.keypoints.get(mirror_name(names[k])) if has_side(names[k]) else None
        if other is not None and np.linalg.norm(predicted[k] - other) <= alpha * case.size:
            yield Failure(SIDE, case, k, predicted[k])
        elif k in returned and returned[k] <= alpha * _source_size(case):
            yield Failure(INSTANCE, case, k, predicted[k])


def _outside(case: Case, point: np.ndarray, alpha: float) -> bool:
    box = case.pair.target.bbox
    if box is None:
        return False
    beyond = np.maximum(np.array(box[:2]) - point, point - np.array(box[2:])).max()
    return bool(beyond > alpha * case.size)


def _source_size(case: Case) -> float:
    box = case.pair.source.bbox
    return float(max(case.source.size)) if box is None else max(box[2] - box[0], box[3] - box[1])
