"""One training step and one validation step, for Lightning."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from lightning import LightningModule
from torch import Tensor
from torch.nn.functional import pad

from mambamatcher.datasets.dataset import PairBatch
from mambamatcher.errors import MambaMatcherError
from mambamatcher.evaluation.pck import Targets
from mambamatcher.io.tensor_store import TensorStore, digest
from mambamatcher.model.features import Aggregated
from mambamatcher.model.frames import smallest_radius
from mambamatcher.model.geometry import unit_to_pixels
from mambamatcher.model.losses import keypoint_loss, presence_loss, score_cross_entropy
from mambamatcher.model.mambamatcher import Images, MambaMatcher
from mambamatcher.model.transfer import blend_rows, soft_sampler
from mambamatcher.training.metric import PCK
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.teacher import Teacher

ENCODED_BYTES = 2 * 2**30  # of memory for frozen features: those of 2,000 images at 16 levels of 64 channels
VALIDATION_ALPHA = 0.10
VALIDATION_PCK = "validation_pck"


class TrainingError(MambaMatcherError):
    """A run that cannot continue; what it saved so far stays usable."""


class TrainingModule(LightningModule):
    """The model with its losses, its optimiser and its validation metric."""

    def __init__(self, recipe: Recipe, model: MambaMatcher, pck: PCK) -> None:
        super().__init__()
        self.recipe = recipe
        self.model = model
        self.pck = pck
        self.teacher = Teacher(model, recipe.pseudo) if recipe.pseudo.weight > 0 else None
        self.encoded = TensorStore(ENCODED_BYTES)

    def training_step(self, batch: PairBatch, batch_index: int) -> Float[Tensor, ""]:
        """Return the weighted sum of the losses."""
        recipe, transfer = self.recipe, self.recipe.model.transfer
        encoded = self._encode(batch.images)  # an image that several pairs share is encoded once
        points = batch.source_points.where(batch.present[..., None], 0.0)
        losses: list[Tensor] = []
        refined = None
        teaches = self.teacher is not None and self.global_step >= recipe.pseudo.start
        if recipe.keypoint_weight > 0 or teaches or not self.model.linear:
            refined = self.model.correlate(encoded[batch.source], encoded[batch.target])
        if recipe.keypoint_weight > 0 and refined is not None:
            predicted = self.model.transfer(refined, points)
            losses.append(recipe.keypoint_weight * keypoint_loss(predicted, batch.target_points, batch.present))
        if recipe.cross_entropy_weight > 0:
            asked = points if recipe.absence_weight <= 0 else torch.cat([points, batch.unmatched_points], dim=1)
            # an aggregator may refine the map to a finer grid than that of the features
            rows, columns = encoded.shape[-2:] if refined is None else refined.shape[1:3]
            weights = soft_sampler(asked, (rows, columns), smallest_radius((rows, columns)))
            if refined is not None:
                scores = blend_rows(refined, weights)
            else:
                scores = self.model.correlate_at(encoded, batch.source, batch.target, weights)
            shown, temperature = scores[:, : points.shape[1]], transfer.loss_temperature
            entropy = score_cross_entropy(shown, batch.target_points, batch.present, temperature)
            losses.append(recipe.cross_entropy_weight * entropy)
            if recipe.absence_weight > 0:
                present, absent = (
                    pad(batch.present, (0, batch.unmatched.shape[1])),
                    pad(batch.unmatched, (points.shape[1], 0)),
                )
                losses.append(recipe.absence_weight * presence_loss(scores, present, absent, temperature))
        if self.teacher is not None and teaches and refined is not None:
            losses.append(recipe.pseudo.weight * self.teacher.loss(refined, batch, self.global_step))
        loss = torch.stack(losses).sum()
        if not bool(loss.isfinite()):
            raise TrainingError(
                f"the loss became {loss.item()} at step {self.global_step}; the last checkpoint is from before it. "
                f"Lower learning_rate, set clip_norm, or use another seed"
            )
        self.log("loss", loss, prog_bar=True, batch_size=len(batch.index))
        return loss

    def _encode(self, images: Images) -> Aggregated:
        """Encode images. Frozen features are computed once for each image, unless images are augmented."""
        if not self.recipe.freeze_features or self.recipe.augment:
            with torch.set_grad_enabled(not self.recipe.freeze_features):
                return self.model.encode(images)
        encoded = []
        for image in images:
            key = (digest(_array(image)),)
            found = self.encoded.get(key)
            if found is None:
                with torch.no_grad():
                    found = [_array(self.model.encode(image[None])[0])]
                self.encoded.put(key, found)
            encoded.append(torch.from_numpy(found[0]))
        return torch.stack(encoded).to(images.device)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Update the weights, then those of the teacher."""
        super().optimizer_step(*args, **kwargs)
        if self.teacher is not None:
            self.teacher.follow(self.model)

    def on_validation_epoch_start(self) -> None:
        """Reset the metric."""
        self.pck.reset()

    def validation_step(self, batch: PairBatch, batch_index: int) -> None:
        """Add a batch to the metric, in original pixels."""
        images = batch.images
        predicted = self.model(images[batch.source], images[batch.target], batch.source_points, batch.present)
        sizes = [(int(width), int(height)) for width, height in batch.target_size]
        self.pck.update(
            _array(_to_pixels(predicted, sizes)),
            Targets(
                points=_array(_to_pixels(batch.target_points, sizes)),
                present=_array(batch.present),
                size=_array(batch.target_size),
                box=_array(batch.target_box),
                box_present=_array(batch.box_present),
            ),
            _array(batch.index),
            batch.category,
        )

    def on_validation_epoch_end(self) -> None:
        """Log PCK per image; the metric gathers all processes' pairs."""
        value = self.pck.compute()["image"][self.pck.alphas.index(VALIDATION_ALPHA)]
        self.log(VALIDATION_PCK, 100.0 * value.float(), prog_bar=True, rank_zero_only=False)

    def configure_optimizers(self) -> Any:
        """Give each of the backbone's tuned blocks its own learning rate, and all parameters the schedule."""
        recipe = self.recipe
        by_depth = self.model.backbone.trainable_parameters()
        tuned = {id(parameter) for parameters in by_depth for parameter in parameters}
        correlation = list(self.model.correlation.parameters()) if recipe.correlation_learning_rate else []
        own = tuned | {id(parameter) for parameter in correlation}
        head = [p for p in self.model.parameters() if p.requires_grad and id(p) not in own]
        rates = [recipe.learning_rate, recipe.correlation_learning_rate]
        rates += [recipe.backbone_learning_rate * recipe.layer_decay**depth for depth in range(len(by_depth))]
        groups = [
            {"params": parameters, "lr": rate}
            for parameters, rate in zip([head, correlation, *by_depth], rates, strict=True)
            if parameters
        ]
        if not groups:
            raise TrainingError("this model has nothing to train; choose another features or correlation aggregation")
        optimiser = torch.optim.AdamW(groups, weight_decay=recipe.weight_decay)
        if recipe.schedule == "constant" and recipe.warmup_steps == 0:
            return optimiser
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: self._rate_factor(step))
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _rate_factor(self, step: int) -> float:
        """Return the factor of the learning rate at a step: linear warm-up, then constant or half a cosine."""
        recipe = self.recipe
        if step < recipe.warmup_steps:
            return (step + 1) / recipe.warmup_steps
        if recipe.schedule == "constant":
            return 1.0
        done = (step - recipe.warmup_steps) / max(1, recipe.steps - recipe.warmup_steps)
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))


def _to_pixels(
    points: Float[Tensor, "batch keypoint 2"], sizes: Sequence[tuple[int, int]]
) -> Float[Tensor, "batch keypoint 2"]:
    return torch.stack([unit_to_pixels(each, size) for each, size in zip(points, sizes, strict=True)])


def _array(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()  # NumPy has no bfloat16
