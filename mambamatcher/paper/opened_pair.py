"""A pair opened up to look inside: its pictures, its correlation map before refinement, and what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor, nn

from mambamatcher.datasets.decoding import read_image
from mambamatcher.datasets.records import Pair
from mambamatcher.errors import InputError
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.correlation import correlation_map
from mambamatcher.model.geometry import pixels_to_unit, unit_to_pixels
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.transfer import blend_rows, soft_sampler, transfer_points

CorrelationMap = Float[Tensor, "1 level hs ws ht wt"]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Case:
    """One pair of a benchmark; keypoints in the source's unit frame and, as truth, in the target's pixels."""

    pair: Pair
    source: Image.Image
    target: Image.Image
    correlation: CorrelationMap
    points: Float[Tensor, "1 keypoint 2"]
    truth: Float[np.ndarray, "keypoint 2"]

    @property
    def size(self) -> float:
        """What a threshold is a fraction of: the longer side of the target's box, or of the picture without one."""
        box = self.pair.target.bbox
        return float(max(self.target.size)) if box is None else max(box[2] - box[0], box[3] - box[1])


def open_case(matcher: Matcher, pair: Pair) -> Case:
    """Compute a pair's correlation map as the model's refinement receives it."""
    source, target = read_image(pair.source), read_image(pair.target)
    encoded = matcher.encode(source), matcher.encode(target)
    with torch.no_grad():
        correlation = correlation_map(*matcher.model.features.per_pair(*encoded))
    asked, truth = pair.points()
    units = pixels_to_unit(torch.from_numpy(np.clip(asked, 0, source.size)).float(), source.size)
    return Case(pair, source, target, correlation.clone(), units[None], truth)


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """Take items at equal distances from a list, so that nobody chooses them."""
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[place] for place in places.tolist()]


@torch.no_grad()
def predicted_points(
    case: Case, model: MambaMatcher, correlation: CorrelationMap | None = None
) -> Float[np.ndarray, "keypoint 2"]:
    """Return where the model puts the keypoints, in target pixels, given a correlation map or the pair's own."""
    refined = model.correlation(case.correlation if correlation is None else correlation)
    found = transfer_points(refined, case.points, model.config.transfer)[0]
    return unit_to_pixels(found, case.target.size).double().numpy()


def right_keypoints(
    case: Case, model: MambaMatcher, correlation: CorrelationMap, alpha: float
) -> Bool[np.ndarray, " keypoint"]:
    """Say which keypoints end up within alpha of the truth."""
    return is_right(case, predicted_points(case, model, correlation), alpha)


def is_right(case: Case, points: Float[np.ndarray, "keypoint 2"], alpha: float) -> Bool[np.ndarray, " keypoint"]:
    """Say which predicted points lie within alpha times the object's size of the truth."""
    return np.linalg.norm(points - case.truth, axis=1) <= alpha * case.size


@torch.no_grad()
def scores_of_point(
    case: Case, maps: Float[Tensor, "level hs ws ht wt"], keypoint: int, radius: float
) -> Float[np.ndarray, "level ht wt"]:
    """Return one keypoint's scores over the target in each of some maps."""
    weights = soft_sampler(case.points[:, keypoint : keypoint + 1], (maps.shape[1], maps.shape[2]), radius)
    return blend_rows(maps, weights.expand(len(maps), -1, -1))[:, 0].double().numpy()


def refined_levels(aggregation: nn.Module, correlation: CorrelationMap) -> Float[Tensor, "level hs ws ht wt"]:
    """Return all levels after the refinement, before they are projected onto one score."""
    seen: list[Tensor] = []
    # with gradients enabled the kernel that never stores the levels stays out of the way
    with torch.enable_grad():
        project = getattr(aggregation, "project", None)
        if isinstance(project, nn.Module):
            handle = project.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
            aggregation(correlation.detach().clone())
            handle.remove()
    if not seen:
        raise InputError(
            f"{type(aggregation).__name__} has no refined levels to show; give --model a model with a scan, "
            f"for example one trained by: mambamatcher reproduce correlation"
        )
    return seen[0][0].T.unflatten(1, correlation.shape[2:])
