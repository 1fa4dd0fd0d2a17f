"""Saved predictions as padded and masked arrays, so that scoring a protocol takes a few array operations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from mambamatcher.errors import InputError
from mambamatcher.evaluation.pck import REFERENCES, SCALES, Targets, relative_errors

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Protocol:
    """The reference size of the threshold, and the scale in which distances are measured; see `pck`."""

    reference: str
    scale: str

    @property
    def label(self) -> str:
        """The name of the protocol in reports."""
        return f"{self.reference}, {self.scale}"


@dataclass(frozen=True)
class Table:
    """Predictions and ground truth of all pairs, in original pixels of the target images.

    Attributes:
        names: Name of each pair.
        categories: Names of the categories.
        classes: Index of the category of each pair.
        predicted: Predicted points; a missing prediction is infinite.
        mirrored: Left-right counterpart of each keypoint.
        mirrored_present: Whether the counterpart exists and is visible in the target.
        targets: Ground truth.
    """

    names: list[str]
    categories: list[str]
    classes: Int[np.ndarray, " pair"]
    predicted: Float[np.ndarray, "pair keypoint 2"]
    mirrored: Float[np.ndarray, "pair keypoint 2"]
    mirrored_present: Bool[np.ndarray, "pair keypoint"]
    targets: Targets

    @property
    def counts(self) -> Int[np.ndarray, " pair"]:
        """The number of keypoints per pair."""
        return self.targets.present.sum(axis=1)

    def errors(self, protocol: Protocol) -> Float[np.ndarray, "pair keypoint"]:
        """Return errors as fractions of the reference size; infinite for padding and missing predictions."""
        errors = relative_errors(self.predicted, self.targets, protocol.reference, protocol.scale)
        return np.where(self.targets.present, errors, np.inf)

    def protocols(self) -> list[Protocol]:
        """List every protocol that the ground truth allows.

        The reference `bbox` needs boxes, and `bbox-kp-padded` exists only in the anisotropic scale.
        """
        return [
            Protocol(reference, scale)
            for reference in REFERENCES
            for scale in SCALES
            if (reference != "bbox" or bool(self.targets.box_present.all()))
            and (reference != "bbox-kp-padded" or scale == "anisotropic")
        ]


def make_table(records: Sequence[Record]) -> Table:
    """Stack the records of a prediction file.

    Raises:
        InputError: There are no records.
    """
    if not records:
        raise InputError("there are no predictions to score")
    categories = sorted({record["category"] for record in records})
    number = {name: index for index, name in enumerate(categories)}
    truth, present = _padded([record["target_points"] for record in records])
    predicted, answered = _padded([record["predicted"] for record in records])
    mirrored, mirrored_present = _padded([record["mirrored_points"] for record in records])
    boxes = [record["target"]["bbox"] for record in records]
    return Table(
        names=[record["pair"] for record in records],
        categories=categories,
        classes=np.array([number[record["category"]] for record in records]),
        predicted=np.where(answered[..., None], predicted, np.inf),
        mirrored=mirrored,
        mirrored_present=mirrored_present,
        targets=Targets(
            points=truth,
            present=present,
            size=np.array([record["target"]["size"] for record in records]),
            box=np.array([box or [0.0] * 4 for box in boxes], dtype=np.float64),
            box_present=np.array([box is not None for box in boxes]),
        ),
    )


def _padded(
    lists: Sequence[Sequence[Sequence[float] | None]],
) -> tuple[Float[np.ndarray, "pair keypoint 2"], Bool[np.ndarray, "pair keypoint"]]:
    """Pad lists of points with zeros and return a mask that is false for padding and for null entries."""
    shape = len(lists), max(map(len, lists))
    points, present = np.zeros((*shape, 2)), np.zeros(shape, dtype=bool)
    for row, entries in enumerate(lists):
        for column, point in enumerate(entries):
            if point is not None:
                points[row, column] = point
                present[row, column] = True
    return points, present
