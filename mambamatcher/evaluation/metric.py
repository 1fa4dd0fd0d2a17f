"""PCK as a torchmetrics metric, for training and distributed evaluation; what it measures is said in `pck`."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from mambamatcher.evaluation.pck import ALPHAS, Targets, averages, check_protocol, relative_errors


class PCK(Metric):
    """PCK of one protocol over any number of processes.

    Every pair has a row of its own, filled by whichever process measures it, so a pair that a sampler repeats is
    counted once and a process without pairs does no harm. `compute` has a value for each alpha under `image`, `point`,
    `category-image` and `category-point` (the means over categories), `image/<category>` and `point/<category>`.
    """

    full_state_update = False

    correct: Tensor
    counts: Tensor
    classes: Tensor

    def __init__(
        self,
        pairs: int,
        categories: Sequence[str],
        reference: str = "bbox",
        scale: str = "isotropic",
        alphas: Sequence[float] = ALPHAS,
    ) -> None:
        super().__init__()
        check_protocol(reference, scale)
        self.categories = list(categories)
        self.reference = reference
        self.scale = scale
        self.alphas = tuple(alphas)
        for state, shape in (("correct", (pairs, len(self.alphas))), ("counts", (pairs,)), ("classes", (pairs,))):
            # rows are zero where nobody measured, so the greatest is the one that was
            self.add_state(state, default=torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="max")

    def update(
        self,
        predicted: Float[Tensor, "batch keypoint 2"],
        targets: Targets,
        index: Int[Tensor, " batch"],
        category: Sequence[str],
    ) -> None:
        """Add predictions in original pixels; `index` is the pair's place in the whole set."""
        errors = relative_errors(predicted, targets, self.reference, self.scale)
        alphas = torch.tensor(self.alphas, dtype=errors.dtype, device=errors.device)
        correct = (errors[..., None] <= alphas) & targets.present[..., None]
        self.correct[index] = correct.sum(dim=1)
        self.counts[index] = targets.present.sum(dim=1)
        self.classes[index] = torch.tensor([self.categories.index(name) for name in category], device=index.device)

    def compute(self) -> dict[str, Float[Tensor, " alpha"]]:
        """Return the shares of correct keypoints, from 0 to 1, over the pairs measured so far."""
        measured = self.counts > 0
        return averages(self.correct[measured], self.counts[measured], self.classes[measured], self.categories)
