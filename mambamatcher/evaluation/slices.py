"""Where a model fails: pairs by the grades of the benchmark, and left taken for right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

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
    """The mean over images of one part of the pairs, for each alpha."""

    grade: str
    level: str
    pairs: int
    image: list[float]


@dataclass(frozen=True)
class LeftRight:
    """Of the keypoints whose other side the target also shows, how many were put nearer to that other side."""

    confused: int
    keypoints: int

    @property
    def rate(self) -> float:
        """The share of confused keypoints."""
        return self.confused / self.keypoints


def slices(
    table: Table, records: Sequence[Mapping[str, Any]], protocol: Protocol, alphas: Sequence[float]
) -> list[Slice]:
    """Average over the pairs of each level of each grade the benchmark gives."""
    shares = correct_counts(table.errors(protocol), alphas) / table.counts[:, None]
    found = []
    for grade, levels in GRADES.items():
        given = [record["variation"].get(grade) for record in records]
        for level, label in levels.items():
            mine = torch.tensor([value == level for value in given])
            if bool(mine.any()):
                found.append(Slice(grade, label, int(mine.sum()), shares[mine].mean(dim=0).tolist()))
    return found


def left_right(table: Table) -> LeftRight | None:
    """Count predictions nearer to the keypoint's counterpart than to itself; None where names tell no sides."""
    asked = table.mirrored_present & table.targets.present
    if not bool(asked.any()):
        return None
    own = (table.predicted - table.targets.points).norm(dim=-1)
    other = (table.predicted - table.mirrored).norm(dim=-1)
    return LeftRight(int(((other < own) & asked).sum()), int(asked.sum()))
