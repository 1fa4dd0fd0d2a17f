"""A teacher that labels the positions around annotated points: a moving average of the model in training."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mambamatcher.datasets.dataset import PairBatch
from mambamatcher.model.checkpoint import reconfigured
from mambamatcher.model.frames import Grid
from mambamatcher.model.geometry import grid_centres
from mambamatcher.model.losses import pseudo_label_loss
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.training.recipe import PseudoLabels


class Teacher(nn.Module):
    """The averaged model. It is saved with every checkpoint, so that a run resumes with the same labels."""

    def __init__(self, model: MambaMatcher, settings: PseudoLabels) -> None:
        super().__init__()
        self.settings = settings
        self.averaged = reconfigured(model, model.config).requires_grad_(False)

    def train(self, mode: bool = True) -> "Teacher":
        """Stay in evaluation mode."""
        return super().train(False)

    @torch.no_grad()
    def follow(self, model: MambaMatcher) -> None:
        """Move the average towards the weights of the model."""
        for mine, theirs in zip(self.averaged.parameters(), model.parameters(), strict=True):
            if theirs.requires_grad:
                mine.lerp_(theirs.detach(), 1.0 - self.settings.decay)

    def loss(self, refined: Float[Tensor, "batch hs ws ht wt"], batch: PairBatch, step: int) -> Float[Tensor, ""]:
        """Return the distance of the model's matches from the teacher's around the annotated points of a batch."""
        with torch.no_grad():
            encoded = self.averaged.encode(batch.images)
            label = self.averaged.correlate(encoded[batch.source], encoded[batch.target])
        near = near_points(
            batch.source_points, batch.present, (refined.shape[1], refined.shape[2]), self.settings.reach
        )
        transfer = self.averaged.config.transfer
        return pseudo_label_loss(refined, label, near, transfer, self.settings.share(step))


def near_points(
    points: Float[Tensor, "batch keypoint 2"], present: Bool[Tensor, "batch keypoint"], grid: Grid, reach: float
) -> Bool[Tensor, "batch source_position"]:
    """Return which positions of a grid are within `reach`, at least half a cell, of a present point on both axes."""
    reach = max(reach, 1.0 / min(grid))
    distance = (points[:, :, None] - grid_centres(grid, points.device)).abs().amax(dim=-1)
    return ((distance <= reach) & present[..., None]).any(dim=1)
