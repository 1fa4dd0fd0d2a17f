"""Training losses: the paper's keypoint distance (Sec. 4.4), and additional cross-entropies on the scores."""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from mambamatcher.model.frames import smallest_radius
from mambamatcher.model.layers.execution import in_float32
from mambamatcher.model.transfer import expected_points, matching_probability, soft_sampler
from mambamatcher.model.transfer_settings import Transfer


@in_float32
def keypoint_loss(
    predicted: Float[Tensor, "batch keypoint 2"],
    truth: Float[Tensor, "batch keypoint 2"],
    present: Bool[Tensor, "batch keypoint"],
) -> Float[Tensor, ""]:
    """Return the mean squared distance, averaged per pair over its present keypoints and then over the pairs.

    Args:
        predicted: Predicted target points in the unit frame.
        truth: True target points in the unit frame.
        present: Which keypoints exist. Coordinates of the others are ignored, even NaN. Pairs without any keypoint
            do not count.

    Example:
        >>> import torch
        >>> predicted, truth = torch.zeros(1, 2, 2), torch.tensor([[[0.5, 0.0], [torch.nan, torch.nan]]])
        >>> keypoint_loss(predicted, truth, torch.tensor([[True, False]]))
        tensor(0.2500)
    """
    return _mean_over_pairs((predicted - truth).where(present[..., None], 0.0).square().sum(-1), present)


@in_float32
def score_cross_entropy(
    scores: Float[Tensor, "batch keypoint ht wt"],
    target_points: Float[Tensor, "batch keypoint 2"],
    present: Bool[Tensor, "batch keypoint"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Return the cross-entropy of each keypoint's scores, seen as a classification over all target positions.

    The soft sampler distributes the true class over the positions next to the target point. Unlike the distance, which
    depends only on the mean of the distribution, this loss penalises every wrong position.

    Args:
        scores: Refined scores of each keypoint with every target position.
        target_points: True target points in the unit frame.
        present: Which keypoints exist; the others are ignored.
        temperature: Factor of the scores before the softmax.
    """
    grid = scores.shape[2], scores.shape[3]
    truth = soft_sampler(target_points.where(present[..., None], 0.0), grid, smallest_radius(grid))
    logits = temperature * scores.flatten(2)
    entropy = logits.logsumexp(dim=-1) - (truth * logits).sum(-1)
    return _mean_over_pairs(entropy.where(present, 0.0), present)


@in_float32
def presence_loss(
    scores: Float[Tensor, "batch keypoint ht wt"],
    present: Bool[Tensor, "batch keypoint"],
    absent: Bool[Tensor, "batch keypoint"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Return the binary cross-entropy of whether the target shows each keypoint, both cases weighted equally.

    The logit is the log-sum-exp of a keypoint's scores: "no counterpart" is one more class, of score 0. Where a point
    is found does not depend on the bias of the aggregation, so training can use it as the threshold.

    Args:
        scores: Refined scores of each keypoint with every target position.
        present: Which keypoints exist in both images.
        absent: Which keypoints exist in the source and not in the target.
        temperature: Factor of the scores before the softmax.

    Example:
        >>> import torch
        >>> shown, hidden = torch.tensor([[True, False]]), torch.tensor([[False, True]])
        >>> presence_loss(torch.zeros(1, 2, 1, 1), shown, hidden, 20.0).exp()  # no better than chance
        tensor(2.)
    """
    logit = (temperature * scores.flatten(2)).logsumexp(dim=-1)
    shown = _mean_over_pairs(F.softplus(-logit).where(present, 0.0), present)
    return 0.5 * (shown + _mean_over_pairs(F.softplus(logit).where(absent, 0.0), absent))


@in_float32
def pseudo_label_loss(
    refined: Float[Tensor, "batch hs ws ht wt"],
    label: Float[Tensor, "batch hs ws ht wt"],
    near: Bool[Tensor, "batch source_position"],
    settings: Transfer,
    keep: float,
) -> Float[Tensor, ""]:
    """Return the mean distance of the matches of two maps, over the source positions where they differ least.

    A large distance is probably a wrong label, so the larger ones are left out (Huang et al., ECCV 2022).

    Args:
        refined: Refined map of the model in training.
        label: Refined map of the model that labels; it receives no gradient.
        near: Which source positions to compare. Without any, the loss is zero.
        settings: Readout of both maps.
        keep: Share of these positions to keep, those with the smallest distances; at least one is kept.
    """
    grid = refined.shape[3], refined.shape[4]
    rows = [each.flatten(3).flatten(1, 2)[near][None] for each in (refined, label.detach())]
    found, expected = (expected_points(matching_probability(row, grid, settings), row, grid, settings) for row in rows)
    distances = (found - expected).norm(dim=-1).flatten()
    if not len(distances):
        return refined.sum() * 0.0
    return distances.topk(max(1, int(keep * len(distances))), largest=False).values.mean()


def _mean_over_pairs(
    values: Float[Tensor, "batch keypoint"], present: Bool[Tensor, "batch keypoint"]
) -> Float[Tensor, ""]:
    count = present.sum(-1)
    per_pair = values.sum(-1) / count.clamp_min(1)
    return per_pair.sum() / (count > 0).sum().clamp_min(1)
