"""A pair of pictures that has been compared: points in, matches out, in a moment."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from PIL import Image
from torch import Tensor

from mambamatcher.errors import InputError
from mambamatcher.io.points import check_points
from mambamatcher.matching.confidence import (
    Calibration,
    Evidence,
    Refined,
    gather_evidence,
    point_scores,
    return_agreement,
)
from mambamatcher.matching.peaks import separate_peaks
from mambamatcher.matching.result import MatchResult, Modes
from mambamatcher.model.geometry import pixels_to_unit, unit_to_pixels
from mambamatcher.model.transfer import Transfer, point_probability, transfer_points

Units = Float[Tensor, "keypoint 2"]  # unit frame


@dataclass(frozen=True, kw_only=True)
class PreparedPair:
    """Two pictures compared once; any number of points can then be asked for, each in a moment.

    `mirrored` says that a flip test preferred the mirrored source; `refined` is the source's own frame all the same.
    """

    source: Image.Image = field(repr=False)
    target: Image.Image = field(repr=False)
    refined: Refined = field(repr=False)
    transfer: Transfer
    calibration: Calibration = field(default_factory=Calibration)
    mirrored: bool = False

    def match(self, points: ArrayLike, top_k: int = 1) -> MatchResult:
        """Find in the target the points given on the source, both in original (upright) pixels.

        With `top_k` above 1 the result's `modes` hold up to so many separate places for each point.
        """
        if top_k < 1:
            raise InputError(f"top_k must be at least 1, got {top_k}")
        source_points = check_points(points, self.source.size)
        units = pixels_to_unit(torch.from_numpy(source_points).float(), self.source.size).to(self.refined.device)
        with torch.inference_mode():
            found = transfer_points(self.refined, units[None], self.transfer)[0]
            heatmaps = point_probability(self.refined, units[None], self.transfer)[0]
            scores = point_scores(self.refined, units, self.transfer)
            evidence = self._evidence(units, found, scores, scores.flatten(1).amax(dim=1))
            modes = None if top_k == 1 else self._modes(units, found, scores, top_k)
        confidence = self.calibration.probability(evidence)
        return MatchResult(
            source_points=source_points,
            points=self._target_pixels(found),
            confidence=confidence,
            matched=confidence >= self.calibration.threshold,
            source=self.source,
            target=self.target,
            heatmaps=heatmaps.double().cpu().numpy(),
            evidence=evidence,
            modes=modes,
            mirrored=self.mirrored,
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
