"""A pair with its correlation map, to look inside the model: what goes into the refinement and what comes out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor, nn

from mambamatcher.datasets.image_cache import read_image
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
class OpenedPair:
    """A pair of a benchmark with its correlation map.

    Attributes:
        pair: The annotated pair.
        source: Source image.
        target: Target image.
        correlation: Correlation map before the refinement.
        points: Source keypoints in the unit frame of the source image.
        truth: Annotated target keypoints in target pixels.
    """

    pair: Pair
    source: Image.Image
    target: Image.Image
    correlation: CorrelationMap
    points: Float[Tensor, "1 keypoint 2"]
    truth: Float[np.ndarray, "keypoint 2"]

    @property
    def size(self) -> float:
        """Reference size of thresholds: the longer side of the target's box, or of the image if it has no box."""
        box = self.pair.target.bbox
        return float(max(self.target.size)) if box is None else max(box[2] - box[0], box[3] - box[1])


def open_pair(matcher: Matcher, pair: Pair) -> OpenedPair:
    """Compute the correlation map of a pair as the refinement receives it."""
    source, target = read_image(pair.source), read_image(pair.target)
    encoded = (torch.from_numpy(matcher.encode(image))[None] for image in (source, target))
    with torch.no_grad():
        correlation = correlation_map(*matcher.model.features.per_pair(*encoded))
    asked, truth = pair.points()
    units = pixels_to_unit(torch.from_numpy(np.clip(asked, 0, source.size)).float(), source.size)
    return OpenedPair(pair, source, target, correlation.clone(), units[None], truth)


def evenly_spaced(items: Sequence[Item], count: int) -> list[Item]:
    """Take items at equal distances from a list, so that none is hand-picked."""
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[place] for place in places.tolist()]


@torch.no_grad()
def predicted_points(
    opened: OpenedPair, model: MambaMatcher, correlation: CorrelationMap | None = None
) -> Float[np.ndarray, "keypoint 2"]:
    """Return the predicted keypoints in target pixels, from the given correlation map or from the pair's own."""
    refined = model.correlation(opened.correlation if correlation is None else correlation)
    found = transfer_points(refined, opened.points, model.config.transfer)[0]
    return unit_to_pixels(found, opened.target.size).double().numpy()


def is_correct(
    opened: OpenedPair, points: Float[np.ndarray, "keypoint 2"], alpha: float
) -> Bool[np.ndarray, " keypoint"]:
    """Return which predicted points lie within alpha times the reference size of the truth."""
    return np.linalg.norm(points - opened.truth, axis=1) <= alpha * opened.size


@torch.no_grad()
def scores_of_point(
    opened: OpenedPair, maps: Float[Tensor, "level hs ws ht wt"], keypoint: int, radius: float
) -> Float[np.ndarray, "level ht wt"]:
    """Return the scores of one keypoint over the target image, for each map."""
    weights = soft_sampler(opened.points[:, keypoint : keypoint + 1], (maps.shape[1], maps.shape[2]), radius)
    return blend_rows(maps, weights.expand(len(maps), -1, -1))[:, 0].double().numpy()


def refined_levels(aggregation: nn.Module, correlation: CorrelationMap) -> Float[Tensor, "level hs ws ht wt"]:
    """Return all levels after the refinement, before their projection onto one score."""
    seen: list[Tensor] = []
    # the fused kernel never stores the levels, and it is used only without gradients
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
