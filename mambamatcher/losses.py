"""The training objective (Sec. 4.4)."""

from jaxtyping import Bool, Float
from torch import Tensor

from mambamatcher.layers.precision import in_float32


@in_float32
def keypoint_loss(
    predicted: Float[Tensor, "batch keypoint 2"],
    truth: Float[Tensor, "batch keypoint 2"],
    present: Bool[Tensor, "batch keypoint"],
) -> Float[Tensor, ""]:
    """Average the squared distance over each pair's present keypoints, then over the pairs that have any.

    Points are in the unit frame. What stands at absent keypoints, even NaN, does not matter.
    """
    squared = (predicted - truth).where(present[..., None], 0.0).square().sum(-1)
    count = present.sum(-1)
    per_pair = squared.sum(-1) / count.clamp_min(1)
    return per_pair.sum() / (count > 0).sum().clamp_min(1)
