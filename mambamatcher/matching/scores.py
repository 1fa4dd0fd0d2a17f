"""The refined scores of a pair, computed as far as they are asked for."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from mambamatcher.matching.runtime import Encoded, Refined
from mambamatcher.model.frames import Grid

Weights = Float[np.ndarray, "keypoint source_position"]


@runtime_checkable
class Scores(Protocol):
    """Refined scores of every source position with every target position."""

    @property
    def source_grid(self) -> Grid:
        """Height and width of the source's grid."""
        ...

    @property
    def target_grid(self) -> Grid:
        """Height and width of the target's grid."""
        ...

    def at(self, weights: Weights) -> Float[np.ndarray, "keypoint ht wt"]:
        """Return weighted sums of the scores of source positions."""
        ...

    def transposed(self) -> "Scores":
        """Return the scores from target to source."""
        ...

    def whole(self) -> Refined:
        """Return all scores."""
        ...


class WholeMap:
    """Scores that have all been computed."""

    def __init__(self, refined: Refined) -> None:
        self._refined = refined
        self.source_grid: Grid = (refined.shape[0], refined.shape[1])
        self.target_grid: Grid = (refined.shape[2], refined.shape[3])

    def at(self, weights: Weights) -> Float[np.ndarray, "keypoint ht wt"]:
        """Blend the rows that have a weight."""
        read = np.flatnonzero(weights.any(axis=0))
        rows = self._refined[np.unravel_index(read, self.source_grid)]
        return np.tensordot(weights[:, read].astype(rows.dtype), rows, axes=1)

    def transposed(self) -> "WholeMap":
        """Exchange source and target."""
        return WholeMap(self._refined.transpose(2, 3, 0, 1))

    def whole(self) -> Refined:
        """Return the map."""
        return self._refined


class LinearScores:
    """Scores of a linear head: a row is computed from the features when it is asked for.

    They are the same from both sides, so that transposing exchanges the images.

    Args:
        source: Encoded source image.
        target: Encoded target image.
        correlate_at: As the runtime's.
        correlate: As the runtime's.
    """

    def __init__(
        self,
        source: Encoded,
        target: Encoded,
        correlate_at: Callable[[Encoded, Encoded, Weights], Float[np.ndarray, "keypoint ht wt"]],
        correlate: Callable[[Encoded, Encoded], Refined],
    ) -> None:
        self._source, self._target = source, target
        self._correlate_at, self._correlate = correlate_at, correlate
        self.source_grid: Grid = (source.shape[2], source.shape[3])
        self.target_grid: Grid = (target.shape[2], target.shape[3])

    def at(self, weights: Weights) -> Float[np.ndarray, "keypoint ht wt"]:
        """Compute blended rows."""
        return self._correlate_at(self._source, self._target, weights)

    def transposed(self) -> "LinearScores":
        """Exchange source and target."""
        return LinearScores(self._target, self._source, self._correlate_at, self._correlate)

    def whole(self) -> Refined:
        """Compute the whole map."""
        return self._correlate(self._source, self._target)
