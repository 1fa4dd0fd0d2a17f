"""PCK as a torchmetrics metric, for validation in any number of processes; `evaluation.pck` computes it."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from mambamatcher.evaluation.pck import ALPHAS, Targets, averages, check_protocol, relative_errors


class PCK(Metric):
    """PCK of one protocol over any number of processes.

    Each pair has its own row, filled by the process that evaluates it. So a pair that a distributed sampler repeats is
    counted once, and a process may have no pairs at all. `compute` returns one value per alpha under each of the keys
    `image`, `point`, `category-image` and `category-point` (means over categories), `image/<category>` and
    `point/<category>`.

    Args:
        pairs: Number of pairs in the whole dataset.
        categories: Names of all categories.
        reference: What the threshold is a fraction of, one of `pck.REFERENCES`.
        scale: `isotropic` or `anisotropic`.
        alphas: Thresholds as fractions of the reference size.
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
            # rows are zero in every process but the one that evaluated the pair, so max merges them
            self.add_state(state, default=torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="max")

    def update(
        self,
        predicted: Float[np.ndarray, "batch keypoint 2"],
        targets: Targets,
        index: Int[np.ndarray, " batch"],
        category: Sequence[str],
    ) -> None:
        """Add the predictions of a batch.

        Args:
            predicted: Predicted points in original pixels of the target image.
            targets: Ground truth of the batch.
            index: Index of each pair in the whole dataset.
            category: Category of each pair.
        """
        errors = relative_errors(predicted, targets, self.reference, self.scale)
        correct = (errors[..., None] <= np.array(self.alphas)) & targets.present[..., None]
        self._fill(self.correct, index, correct.sum(axis=1))
        self._fill(self.counts, index, targets.present.sum(axis=1))
        self._fill(self.classes, index, np.array([self.categories.index(name) for name in category]))

    def compute(self) -> dict[str, Float[Tensor, " alpha"]]:
        """Return PCK from 0 to 1, one value per alpha under each key, over the pairs evaluated so far."""
        correct, counts, classes = (state.cpu().numpy() for state in (self.correct, self.counts, self.classes))
        measured = counts > 0
        values = averages(correct[measured], counts[measured], classes[measured], self.categories)
        return {key: torch.from_numpy(value) for key, value in values.items()}

    def _fill(self, state: Tensor, index: Int[np.ndarray, " batch"], values: Int[np.ndarray, "batch *alpha"]) -> None:
        state[torch.from_numpy(index).to(state.device)] = torch.from_numpy(values).to(state.device)
