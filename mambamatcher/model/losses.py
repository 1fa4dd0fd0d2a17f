"""Training objectives: the paper's (Sec. 4.4), and a cross-entropy on the refined scores beside it."""

from jaxtyping import Bool, Float
from torch import Tensor

from mambamatcher.model.geometry import smallest_radius
from mambamatcher.model.layers.precision import in_float32
from mambamatcher.model.transfer import soft_sampler


@in_float32
def keypoint_loss(
    predicted: Float[Tensor, "batch keypoint 2"],
    truth: Float[Tensor, "batch keypoint 2"],
    present: Bool[Tensor, "batch keypoint"],
) -> Float[Tensor, ""]:
    """Average the squared distance over each pair's present keypoints, then over the pairs that have any.

    Points are in the unit frame. What stands at absent keypoints, even NaN, does not matter.
    """
    return _mean_over_pairs((predicted - truth).where(present[..., None], 0.0).square().sum(-1), present)


@in_float32
def score_cross_entropy(
    scores: Float[Tensor, "batch keypoint ht wt"],
    target_points: Float[Tensor, "batch keypoint 2"],
    present: Bool[Tensor, "batch keypoint"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Ask each keypoint's scores to single out where it lies: a classification over all target positions.

    The truth is spread over the positions next to the target point by the soft sampler. It tells every wrong position
    apart, where a distance only feels the mean.
    """
    grid = scores.shape[2], scores.shape[3]
    truth = soft_sampler(target_points.where(present[..., None], 0.0), grid, smallest_radius(grid))
    entropy = -(truth * (temperature * scores.flatten(2)).log_softmax(dim=-1)).sum(-1)
    return _mean_over_pairs(entropy.where(present, 0.0), present)


def _mean_over_pairs(
    values: Float[Tensor, "batch keypoint"], present: Bool[Tensor, "batch keypoint"]
) -> Float[Tensor, ""]:
    count = present.sum(-1)
    per_pair = values.sum(-1) / count.clamp_min(1)
    return per_pair.sum() / (count > 0).sum().clamp_min(1)
