"""The named points of one object, in continuous pixels of the upright image; (0, 0) is its upper left corner."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from sys import intern

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from mambamatcher.errors import InputError

ABSENT, HIDDEN, VISIBLE = 0, 1, 2  # COCO's numbers; the coordinates of an absent point mean nothing
LARGEST = 1e9  # pixels; more can be neither rounded nor drawn. Also of confidences, which some tools have above 1

Pixels = Float[NDArray[np.float64], "keypoint 2"]
Size = tuple[int, int]
Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class PointSet:
    """The named points of one object.

    Attributes:
        points: In pixels.
        names: A name for each.
        visibility: 0 (absent), 1 (hidden) or 2 (visible) for each.
        confidence: From 0 to 1 for each, where it is known.
        size: The image's (width, height), where it is known.
        category: What kind of object it is, where it is known.
        box: The object's box (x1, y1, x2, y2), where it is known.
    """

    points: Pixels
    names: tuple[str, ...]
    visibility: Int[np.ndarray, " keypoint"]
    confidence: Float[np.ndarray, " keypoint"] | None = None
    size: Size | None = None
    category: str | None = None
    box: Box | None = None

    def __post_init__(self) -> None:
        if not len(self.points) == len(self.names) == len(self.visibility):
            raise InputError(
                f"{len(self.points)} points have {len(self.names)} names and {len(self.visibility)} visibilities"
            )
        if self.confidence is not None and self.confidence.shape != (len(self.points),):
            raise InputError(f"{len(self.points)} points have {self.confidence.size} confidences")
        repeated = [name for name, following in pairwise(sorted(self.names)) if name == following]
        if repeated:
            raise InputError(f"two points of one object are named {repeated[0]!r}")

    def visible(self) -> "PointSet":
        """Return the visible points, which are those that can be matched."""
        kept = np.flatnonzero(self.visibility == VISIBLE)
        return replace(
            self,
            points=self.points[kept],
            names=tuple(self.names[index] for index in kept),
            visibility=self.visibility[kept],
            confidence=None if self.confidence is None else self.confidence[kept],
        )


def make_points(
    points: ArrayLike,
    names: Sequence[str] | None = None,
    visibility: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    size: Size | None = None,
    category: str | None = None,
) -> PointSet:
    """Make a point set.

    Args:
        points: A list of (x, y).
        names: Their names; by default their numbers, from 1.
        visibility: 0 (absent), 1 (hidden) or 2 (visible) for each, or booleans; by default all are visible.
        confidence: From 0 to 1 for each, where it is known.
        size: Width and height of the image, where they are known.
        category: What kind of object it is.

    Raises:
        InputError: The lists do not fit together, or hold something else.
    """
    array = as_points(points)
    seen = np.full(len(array), VISIBLE) if visibility is None else np.asarray(visibility)
    if seen.dtype == bool:
        seen = np.where(seen, VISIBLE, ABSENT)
    is_number = seen.dtype.kind in "iuf"
    if seen.ndim != 1 or not is_number or not ((seen == ABSENT) | (seen == HIDDEN) | (seen == VISIBLE)).all():
        raise InputError(
            f"visibility is 0 (absent), 1 (hidden) or 2 (visible) for each point, got {reprlib.repr(seen.tolist())}"
        )
    finite = np.abs(array) < LARGEST
    if not finite.all():
        if len(seen) == len(array) and not finite[seen != ABSENT].all():
            raise InputError(
                f"places of points must be finite numbers below {LARGEST:g}, got {reprlib.repr(array.tolist())}"
            )
        array = np.where(finite, array, 0.0)  # of absent points, whose coordinates mean nothing
    labels = tuple(map(str, range(1, len(array) + 1))) if names is None else tuple(intern(str(name)) for name in names)
    if size is not None and not (0 < size[0] < LARGEST and 0 < size[1] < LARGEST):
        raise InputError(f"an image of {size[0]}x{size[1]} pixels cannot be")
    sure = None if confidence is None else np.asarray(confidence, dtype=np.float64)
    if sure is not None and not (np.abs(sure) < LARGEST).all():
        raise InputError(f"confidences must be finite numbers, such as 0.9, got {reprlib.repr(sure.tolist())}")
    return PointSet(
        points=np.nan_to_num(array, posinf=0, neginf=0),
        names=labels,
        visibility=seen.astype(np.int64),
        confidence=sure,
        size=size,
        category=category,
    )


def as_points(points: ArrayLike) -> Pixels:
    """Return a list of (x, y) as an array, or refuse it."""
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"points must be a list of (x, y) numbers, got {reprlib.repr(points)}") from error
    if array.size == 0:
        raise InputError("the list of points is empty; give at least one (x, y)")
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"points must be a list of (x, y) pairs, got an array of shape {array.shape}")
    return array


def check_points(points: ArrayLike, size: Size) -> Pixels:
    """Return points as an array, or refuse the first that lies outside an image.

    Args:
        points: A list of (x, y) in pixels.
        size: The image's (width, height).
    """
    array = as_points(points)
    inside = np.isfinite(array).all(axis=1) & (array >= 0).all(axis=1) & (array <= np.array(size)).all(axis=1)
    if not inside.all():
        index = int(np.argmin(inside))
        x, y = array[index]
        raise InputError(
            f"point {index + 1}, ({x:g}, {y:g}), lies outside the source image of {size[0]}x{size[1]} pixels"
        )
    return array
