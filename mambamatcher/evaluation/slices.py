"""Where a model fails: PCK by the difficulty labels of the benchmark, and left-right confusion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mambamatcher.evaluation.score import correct_counts
from mambamatcher.evaluation.table import Protocol, Table

_EASE = {0: "easy", 1: "medium", 2: "hard"}
_WHERE = {0: "none", 1: "source", 2: "target", 3: "both"}
GRADES: Mapping[str, Mapping[int, str]] = {
    "viewpoint": _EASE,
    "scale": _EASE,
    "truncation": _WHERE,
    "occlusion": _WHERE,
    "mirror": {0: "no", 1: "yes"},
}


@dataclass(frozen=True)
class Slice:
    """PCK per image, one value per alpha, of the pairs with one difficulty label."""

    grade: str
    level: str
    pairs: int
    image: list[float]


@dataclass(frozen=True)
class LeftRight:
    """Keypoints whose left-right counterpart is also visible in the target, and how many were confused with it."""

    confused: int
    keypoints: int

    @property
    def rate(self) -> float:
        """The fraction of these keypoints that were confused."""
        return self.confused / self.keypoints


def slices(
    table: Table, records: Sequence[Mapping[str, Any]], protocol: Protocol, alphas: Sequence[float]
) -> list[Slice]:
    """Compute PCK per image for each level of each grade that the benchmark annotates.

    Args:
        table: Predictions and ground truth of all pairs.
        records: Records of the prediction file, in the order of the table; their `variation` holds the levels.
        protocol: PCK protocol.
        alphas: Thresholds as fractions of the reference size.

    Returns:
        One slice per level that occurs.
    """
    shares = correct_counts(table.errors(protocol), alphas) / table.counts[:, None]
    found = []
    for grade, levels in GRADES.items():
        given = [record["variation"].get(grade) for record in records]
        for level, label in levels.items():
            mine = np.array([value == level for value in given])
            if bool(mine.any()):
                found.append(Slice(grade, label, int(mine.sum()), shares[mine].mean(axis=0).tolist()))
    return found


def left_right(table: Table) -> LeftRight | None:
    """Count predictions nearer to the left-right counterpart than to the keypoint; None without counterparts."""
    asked = table.mirrored_present & table.targets.present
    if not bool(asked.any()):
        return None
    own = np.linalg.norm(table.predicted - table.targets.points, axis=-1)
    other = np.linalg.norm(table.predicted - table.mirrored, axis=-1)
    return LeftRight(int(((other < own) & asked).sum()), int(asked.sum()))
