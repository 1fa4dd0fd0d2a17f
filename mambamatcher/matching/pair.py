"""Two images that have been correlated: points in, matches out."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from PIL import Image
from torch import Tensor

from mambamatcher.errors import InputError
from mambamatcher.io.points import Pixels, check_points
from mambamatcher.matching.confidence import (
    Calibration,
    Evidence,
    Refined,
    gather_evidence,
    return_agreement,
)
from mambamatcher.matching.peaks import separate_peaks
from mambamatcher.matching.result import MatchResult, Modes
from mambamatcher.model.geometry import pixels_to_unit, unit_to_pixels
from mambamatcher.model.transfer import Transfer, read_out

Units = Float[Tensor, "keypoint 2"]  # unit frame


@dataclass(frozen=True, kw_only=True)
class PreparedPair:
    """Two images correlated once; any number of points can then be matched quickly."""

    source: Image.Image = field(repr=False)
    target: Image.Image = field(repr=False)
    refined: Refined = field(repr=False)
    transfer: Transfer
    calibration: Calibration = field(default_factory=Calibration)

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
        units = pixels_to_unit(torch.from_numpy(points).float(), self.source.size).to(self.refined.device)
        with torch.inference_mode():
            found, scores, heatmaps = (each[0] for each in read_out(self.refined, units[None], self.transfer))
            evidence = self._evidence(units, found, scores, scores.flatten(1).amax(dim=1))
            modes = None if top_k == 1 else self._modes(units, found, scores, top_k)
        confidence = self.calibration.probability(evidence)
        return MatchResult(
            source_points=points,
            points=self._target_pixels(found),
            confidence=confidence,
            matched=confidence >= self.calibration.threshold,
            source=self.source,
            target=self.target,
            heatmaps=heatmaps.double().cpu().numpy(),
            evidence=evidence,
            modes=modes,
        )

    def _modes(self, units: Units, found: Units, scores: Float[Tensor, "keypoint ht wt"], count: int) -> Modes:
        peaks = separate_peaks(scores, count, self.transfer)
        places = torch.cat([found[:, None], peaks.points[:, 1:]], dim=1)  # the best one is the match itself
        evidence = (
            self._evidence(units, place, scores, height)
            for place, height in zip(places.unbind(dim=1), peaks.height.unbind(dim=1), strict=True)
        )
        return Modes(
            points=self._target_pixels(places),
            confidence=np.stack([self.calibration.probability(each) for each in evidence], axis=1),
            present=peaks.present.cpu().numpy(),
        )

    def _evidence(
        self,
        units: Units,
        found: Units,
        scores: Float[Tensor, "keypoint ht wt"],
        height: Float[Tensor, " keypoint"],
    ) -> Evidence:
        agreement = return_agreement(self.refined, units, found, self.transfer)
        return gather_evidence(scores, height, agreement, self.transfer.temperature)

    def _target_pixels(self, units: Float[Tensor, "*any 2"]) -> Float[np.ndarray, "*any 2"]:
        return unit_to_pixels(units, self.target.size).double().cpu().numpy()
