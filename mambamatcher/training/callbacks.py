"""Callbacks of training: epochs, checkpoints, progress and images for TensorBoard."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from lightning import Callback, Trainer
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.loggers import TensorBoardLogger
from PIL import Image
from torch import Tensor

from mambamatcher.datasets.dataset import PairDataset, PairSample, collate
from mambamatcher.io.drawing import draw_matches
from mambamatcher.io.images import to_bytes
from mambamatcher.model.correlation import correlation_map
from mambamatcher.model.correlation.similarity_scan import SimilarityScan, without_state
from mambamatcher.model.geometry import unit_to_pixels
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.transfer import read_out
from mambamatcher.training.folder import BEST, LAST
from mambamatcher.training.module import VALIDATION_PCK, TrainingError, TrainingModule

STATE_LOGITS = "state_logits"


class Epochs(Callback):
    """Tell sampler and augmentation which epoch starts, so that each epoch differs and can be repeated."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Set the epoch."""
        loader: Any = trainer.train_dataloader
        loader.batch_sampler.set_epoch(trainer.current_epoch)
        loader.dataset.set_epoch(trainer.current_epoch)


class Checkpoints(Callback):
    """After each epoch, replace `last.ckpt` atomically, and `best.ckpt` where validation improved.

    A kill at any moment leaves the complete files of one epoch or of the next.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.best = float("-inf")

    def state_dict(self) -> dict[str, Any]:
        """Return the best score so far."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best score."""
        self.best = state_dict["best"]

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Save the epoch that has just been validated."""
        score = float(trainer.callback_metrics[VALIDATION_PCK])
        improved, self.best = score > self.best, max(score, self.best)
        temporary = self.folder / f"{LAST}.part"
        try:
            trainer.save_checkpoint(temporary)
            if trainer.is_global_zero:
                self._put_in_place(temporary, improved)
        except (OSError, RuntimeError) as error:
            temporary.unlink(missing_ok=True)
            raise TrainingError(
                f"cannot save step {trainer.global_step} to {self.folder}: {str(error).splitlines()[0]}; the "
                f"previous checkpoint is intact, so free some space and run the same command with --resume"
            ) from error

    def _put_in_place(self, temporary: Path, improved: bool) -> None:
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        if improved:
            copy = self.folder / f"{BEST}.part"
            shutil.copyfile(temporary, copy)
            os.replace(copy, self.folder / BEST)
        os.replace(temporary, self.folder / LAST)


class PlainProgress(Callback):
    """One line per epoch, for output that is not a terminal."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.started = 0.0
        self.first = 0

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Remember where this session started."""
        self.started, self.first = time.monotonic(), trainer.global_step

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Print loss, validation PCK and remaining time."""
        if not trainer.is_global_zero:
            return
        pace = (time.monotonic() - self.started) / max(1, trainer.global_step - self.first)
        left = int(pace * (self.steps - trainer.global_step))
        metrics = trainer.callback_metrics
        sys.stderr.write(
            f"step {trainer.global_step}/{self.steps}  loss {float(metrics['loss']):.4f}  "
            f"validation PCK@0.10 {float(metrics[VALIDATION_PCK]):.2f}  {pace:.2f} s/step  "
            f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left\n"
        )
        sys.stderr.flush()


def on_terminal() -> bool:
    """Return whether a progress bar would be seen."""
    return sys.stdout.isatty()


def progress(steps: int) -> list[Callback]:
    """Return a progress bar on a terminal and plain lines elsewhere."""
    return [RichProgressBar() if on_terminal() else PlainProgress(steps)]


class TensorBoardImages(Callback):
    """At each validation, log the matches of a few pairs and a heat map to TensorBoard."""

    def __init__(self, dataset: PairDataset, count: int = 3) -> None:
        self.dataset = dataset
        self.count = min(count, len(dataset))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Draw with the weights that were just validated."""
        boards = [logger for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)]
        if not trainer.is_global_zero or not boards:
            return
        for number in range(self.count):
            matches, heat = draw_sample(pl_module, self.dataset[number])
            for name, image in (("matches", matches), ("heat", heat)):
                boards[0].experiment.add_image(f"{name}/{number}", image, trainer.global_step)


class StateContribution(Callback):
    """At each validation, log what the state of the scans adds to the scores of a few pairs, in logits.

    A scan whose state adds next to nothing cannot show whether its order matters.
    """

    def __init__(self, dataset: PairDataset, count: int = 8) -> None:
        self.dataset = dataset
        self.count = min(count, len(dataset))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Measure with the weights that were just validated."""
        added = [state_logits(pl_module.model, self.dataset[number]) for number in range(self.count)]
        pl_module.log(STATE_LOGITS, sum(added) / len(added), sync_dist=True)


def has_state(model: MambaMatcher) -> bool:
    """Return whether the correlation aggregation has a scan with a state."""
    return isinstance(model.correlation, SimilarityScan) and model.correlation.has_state


@torch.no_grad()
def state_logits(model: MambaMatcher, sample: PairSample) -> float:
    """Return how far the state of the scans moves the logits of one pair.

    It is the standard deviation over target positions, because a softmax ignores constants, averaged over source
    positions.
    """
    images = torch.stack([sample.source_image, sample.target_image]).to(next(model.parameters()).device)
    source, target = model.encode(images).split(1)
    correlation = correlation_map(*model.features.per_pair(source, target))
    moved = model.correlation(correlation) - without_state(model.correlation)(correlation)
    return float(model.config.transfer.loss_temperature * moved.flatten(3).flatten(1, 2).std(dim=-1).mean())


def draw_sample(
    module: TrainingModule, sample: PairSample
) -> tuple[Float[Tensor, "3 height width"], Float[Tensor, "3 side side"]]:
    """Draw one pair's predicted matches, and its first keypoint's heat map over the target."""
    batch = collate([sample]).to(module.device)
    with torch.no_grad():
        source, target = (module.model.encode(batch.images[index]) for index in (batch.source, batch.target))
        refined = module.model.correlate(source, target)
        found, _, heatmaps = read_out(refined, batch.source_points, module.recipe.model.transfer)
    side = sample.source_image.shape[-1]
    points = [unit_to_pixels(p.cpu(), (side, side)).double().numpy() for p in (sample.source_points, found[0])]
    drawn = draw_matches(_pil_image(sample.source_image), _pil_image(sample.target_image), *points)
    glow = torch.nn.functional.interpolate(heatmaps[:, :1], (side, side), mode="bilinear")[0].cpu()
    return _tensor(drawn), 0.4 * sample.target_image + 0.6 * glow / glow.amax().clamp_min(1e-12)


def _pil_image(image: Float[Tensor, "3 side side"]) -> Image.Image:
    return Image.fromarray((255 * image).byte().permute(1, 2, 0).cpu().numpy())


def _tensor(image: Image.Image) -> Float[Tensor, "3 height width"]:
    return torch.from_numpy(to_bytes(image)).float() / 255.0
