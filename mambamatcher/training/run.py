"""A training run: a folder that can be resumed at any time and ends with a model that can be loaded."""

import errno
import logging
import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from lightning import Trainer, seed_everything
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.profilers import SimpleProfiler
from lightning.pytorch.utilities import rank_zero_only

from mambamatcher.errors import InputError
from mambamatcher.io.tensor_store import TensorStore
from mambamatcher.model.checkpoint import build_empty
from mambamatcher.model.mambamatcher import MambaMatcher, check_side
from mambamatcher.training.callbacks import (
    Checkpoints,
    Epochs,
    StateContribution,
    TensorBoardImages,
    has_state,
    on_terminal,
    progress,
)
from mambamatcher.training.data_module import TrainingData, TrainingPairs
from mambamatcher.training.folder import LAST, MODEL, export_best, opened
from mambamatcher.training.metric import PCK
from mambamatcher.training.module import VALIDATION_ALPHA, VALIDATION_PCK, TrainingError, TrainingModule
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.start import begin, centre_presence, inherit


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Where to train, in Lightning's terms."""

    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"
    accelerator: str = "auto"
    profile: bool = False  # write a profile to the run's folder

    @property
    def processes(self) -> int:
        """The number of processes that train together."""
        return self.devices * self.nodes


def train(recipe: Recipe, pairs: TrainingPairs, folder: Path, hardware: Hardware, resume: bool = False) -> Path:
    """Train a model.

    Args:
        recipe: Model, schedule and augmentation.
        pairs: Training and validation pairs.
        folder: The run's folder: recipe, checkpoints, logs and, at the end, the model.
        hardware: Devices and precision.
        resume: Continue the run in `folder`, which must have the same recipe.

    Returns:
        The folder of the model with the best validation score.

    Raises:
        InputError: The folder is in use, holds a run or files of the user's already, or has no run to resume.
        ConfigError: The recipe is impossible, or differs from that of the run to resume.
        WeightsError: A checkpoint is damaged or does not fit the model.
        TrainingError: The loss is not finite, or a checkpoint cannot be written; the last one stays usable.
    """
    recipe.accumulation(hardware.processes)  # refuses what does not divide, before anything is written
    _quieten()
    seed_everything(recipe.seed, workers=True, verbose=False)
    model = MambaMatcher(recipe.model) if recipe.start is None else build_empty(recipe.model)
    for side in recipe.sides:
        check_side(side, model.backbone.stride)
    if not (resume and (folder / LAST).exists()):
        begin(model, recipe.start, pairs.train)
        if recipe.absence_weight > 0:
            centre_presence(model, pairs.train)
    if recipe.freeze_features:
        for part in (model.backbone, model.features):
            part.requires_grad_(False)
    if getattr(rank_zero_only, "rank", 0) == 0:
        run: AbstractContextManager[Path | None] = opened(folder, recipe, model, resume)
    else:  # the first process has opened the folder
        run = nullcontext(folder / LAST if resume and (folder / LAST).exists() else None)
    with run as checkpoint:
        _fit(recipe, model, pairs, folder, hardware, checkpoint)
        if recipe.start is not None and getattr(rank_zero_only, "rank", 0) == 0:
            inherit(recipe.start, folder / MODEL)
    return folder / MODEL


def _fit(
    recipe: Recipe, model: MambaMatcher, pairs: TrainingPairs, folder: Path, hardware: Hardware, checkpoint: Path | None
) -> None:
    """Train from a checkpoint, or from the start without one, and export the best weights."""
    if recipe.cache_gigabytes > 0:
        store = TensorStore(folder=folder / "features", disk_bytes=int(recipe.cache_gigabytes * 1e9))
        model.backbone.keep_levels(store)
    categories = sorted({pair.category for pair in pairs.validation})
    module = TrainingModule(recipe, model, PCK(len(pairs.validation), categories, pairs.reference))
    data = TrainingData(recipe, pairs)
    averaging = [EMAWeightAveraging(decay=recipe.averaging)] if recipe.averaging else []
    trainer = Trainer(
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        precision=hardware.precision,  # type: ignore[arg-type]
        logger=[TensorBoardLogger(folder, name="tensorboard", version=""), CSVLogger(folder, name="csv")],
        callbacks=[
            Epochs(),
            TensorBoardImages(data.validation),  # before averaging, which swaps the weights back afterwards
            *([StateContribution(data.validation)] if has_state(model) else []),
            *averaging,
            *progress(recipe.steps),
            Checkpoints(folder),
        ],
        max_epochs=recipe.steps // recipe.round_steps,
        accumulate_grad_batches=recipe.accumulation(hardware.processes),
        gradient_clip_val=recipe.clip_norm,
        num_sanity_val_steps=0,
        log_every_n_steps=min(50, recipe.round_steps),
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=on_terminal(),
        use_distributed_sampler=False,
        profiler=SimpleProfiler(folder, "profile") if hardware.profile else None,
    )
    try:
        if recipe.start is not None and checkpoint is None:
            _validate_start(trainer, module, data)
        trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except InputError as error:  # a loader's worker puts its whole traceback into the message
        raise InputError(str(error).strip().rpartition(f"{InputError.__name__}: ")[2]) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TrainingError(
            f"cannot write to {folder}: {error.strerror}; the previous checkpoint is intact, so free space and run "
            "the same command with --resume"
        ) from error
    if trainer.is_global_zero:
        export_best(folder, model)


def _validate_start(trainer: Trainer, module: TrainingModule, data: TrainingData) -> None:
    """Print how good the model is that training starts from."""
    (found,) = trainer.validate(module, datamodule=data, verbose=False)
    if trainer.is_global_zero:
        sys.stderr.write(f"start: validation PCK@{VALIDATION_ALPHA:.2f} {found[VALIDATION_PCK]:.2f}\n")


def _quieten() -> None:
    """Silence Lightning's warnings about things that are intended."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in (
        ".*in eval mode at the start of training.*",  # a frozen backbone is
        ".*isinstance.treespec, LeafSpec.*",
        ".*does not have many workers.*",
        ".*Checkpoint directory .* exists.*",
        ".*resuming from a checkpoint that ended before the epoch.*",
        ".*logging on epoch level in distributed setting.*",  # the metric has gathered all processes' pairs itself
    ):
        warnings.filterwarnings("ignore", message)
