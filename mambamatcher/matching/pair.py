"""Two images that have been correlated: points in, matches out."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.io.points import Pixels, check_points
from mambamatcher.matching.confidence import Calibration, Evidence, gather_evidence, return_agreement
from mambamatcher.matching.peaks import separate_peaks
from mambamatcher.matching.result import MatchResult, Modes
from mambamatcher.matching.runtime import Refined
from mambamatcher.matching.scores import Scores
from mambamatcher.matching.transfer import read_out
from mambamatcher.model.frames import pixels_to_unit, unit_to_pixels
from mambamatcher.model.transfer_settings import Transfer

Units = Float[np.ndarray, "keypoint 2"]  # unit frame


@dataclass(frozen=True, kw_only=True)
class PreparedPair:
    """Two images encoded once; any number of points can then be matched quickly.

    A linear head computes only the scores that the points need. The whole map is computed when `refined` is read.
    """

    source: Image.Image = field(repr=False)
    target: Image.Image = field(repr=False)
    scores: Scores = field(repr=False)
    transfer: Transfer
    calibration: Calibration = field(default_factory=Calibration)

    @property
    def refined(self) -> Refined:
        """The refined correlation map."""
        return self.scores.whole()

    def match(self, points: ArrayLike, top_k: int = 1) -> MatchResult:
        """Find points of the source in the target.

        Args:
            points: `(x, y)` in the source's original, upright pixels.
            top_k: How many separate places to return for each point in the result's `modes`.

        Raises:
            InputError: A point lies outside the source, or `top_k` is below 1.
        """
        return self.match_checked(check_points(points, self.source.size), top_k)

    def match_checked(self, points: Pixels, top_k: int = 1) -> MatchResult:
        """Do the same with points that `check_points` returned."""
        if top_k < 1:
            raise InputError(f"top_k must be at least 1, got {top_k}")
        units = pixels_to_unit(points.astype(np.float32), self.source.size)
        found, scores, heatmaps = read_out(self.scores, units, self.transfer)
        evidence = self._evidence(units, found, scores, scores.max(axis=(1, 2)))
        modes = None if top_k == 1 else self._modes(units, found, scores, top_k)
        confidence = self.calibration.probability(evidence)
        return MatchResult(
            source_points=points,
            points=self._target_pixels(found),
            confidence=confidence,
            matched=confidence >= self.calibration.threshold,
            presence=self.calibration.presence_probability(evidence),
            source=self.source,
            target=self.target,
            heatmaps=heatmaps.astype(np.float64),
            evidence=evidence,
            modes=modes,
        )

    def _modes(self, units: Units, found: Units, scores: Float[np.ndarray, "keypoint ht wt"], count: int) -> Modes:
        peaks = separate_peaks(scores, count, self.transfer)
        places = np.concatenate([found[:, None], peaks.points[:, 1:]], axis=1)  # the best one is the match itself
        evidence = (
            self._evidence(units, places[:, index], scores, peaks.height[:, index]) for index in range(places.shape[1])
        )
        return Modes(
            points=self._target_pixels(places),
            confidence=np.stack([self.calibration.probability(each) for each in evidence], axis=1),
            present=peaks.present,
        )

    def _evidence(
        self,
        units: Units,
        found: Units,
        scores: Float[np.ndarray, "keypoint ht wt"],
        height: Float[np.ndarray, " keypoint"],
    ) -> Evidence:
        agreement = return_agreement(self.scores.transposed(), units, found, self.transfer)
        return gather_evidence(scores, height, agreement, self.transfer.temperature, found)

    def _target_pixels(self, units: Float[np.ndarray, "*any 2"]) -> Float[np.ndarray, "*any 2"]:
        return unit_to_pixels(units.astype(np.float64), self.target.size)
