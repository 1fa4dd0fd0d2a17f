"""A training run: a folder that can be resumed at any time and ends with a model that can be loaded."""

import errno
import json
import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning import Trainer, seed_everything
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.profilers import SimpleProfiler
from lightning.pytorch.utilities import rank_zero_only

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.evaluation.metric import PCK
from mambamatcher.io.atomic import make_folder, parse_json, write_atomically
from mambamatcher.io.tensor_store import TensorStore
from mambamatcher.model.backbones.weights import reading
from mambamatcher.model.checkpoint import save_pretrained
from mambamatcher.model.config import to_dict
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.training.callbacks import (
    BEST,
    LAST,
    Checkpoints,
    Epochs,
    TensorBoardImages,
    on_terminal,
    progress,
)
from mambamatcher.training.data_module import TrainingData, TrainingPairs
from mambamatcher.training.module import TrainingError, TrainingModule
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.start import begin, checkpoint_weights

RECIPE = "recipe.json"


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
        InputError: The folder holds a run already, or none to resume.
        ConfigError: The recipe is impossible, or differs from that of the run to resume.
        TrainingError: The loss is not finite, or a checkpoint cannot be written; the last one stays usable.
    """
    accumulation = recipe.accumulation(hardware.processes)
    checkpoint = _prepare(folder, recipe, resume)
    _quieten()
    seed_everything(recipe.seed, workers=True, verbose=False)
    model = MambaMatcher(recipe.model)
    if checkpoint is None:
        begin(model, recipe.start, pairs.train)
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
            *averaging,
            *progress(recipe.steps),
            Checkpoints(folder),
        ],
        max_epochs=recipe.steps // recipe.round_steps,
        accumulate_grad_batches=accumulation,
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
        trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TrainingError(
            f"cannot write to {folder}: {error.strerror}; the previous checkpoint is intact, so free space and run "
            "the same command with --resume"
        ) from error
    if trainer.is_global_zero:
        export_best(folder, model)
    return folder / "model"


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
    ):
        warnings.filterwarnings("ignore", message)


def _prepare(folder: Path, recipe: Recipe, resume: bool) -> Path | None:
    """Create the run's folder, or find the last checkpoint of a run with the same recipe."""
    written = folder / RECIPE
    if getattr(rank_zero_only, "rank", 0) != 0:  # the first process has checked, and may be writing already
        return folder / LAST if resume and (folder / LAST).exists() else None
    if not resume:
        if written.exists():
            raise InputError(f"{folder} holds a run already; resume it with --resume or choose another folder")
        make_folder(folder)
        text = json.dumps(to_dict(recipe), indent=2) + "\n"
        write_atomically(written, lambda path: _write(path, text))
        return None
    return find_run(folder, recipe)


def find_run(folder: Path, recipe: Recipe) -> Path | None:
    """Return the last checkpoint of a run, if there is one, and check that this recipe can resume it."""
    written, last = folder / RECIPE, folder / LAST
    if not written.exists():
        raise InputError(f"there is no run to resume in {folder}; start it without --resume")
    before, now = flatten(_read(written)), flatten(to_dict(recipe))
    changed = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    if changed:
        key = changed[0]
        raise ConfigError(
            f"{folder} was started with another recipe: {key} was {before.get(key)!r} and is now {now.get(key)!r}"
            + (f" ({len(changed)} keys differ)" if len(changed) > 1 else "")
        )
    if not last.exists():
        return None
    with reading(last):
        saved = torch.load(last, map_location="cpu", weights_only=True, mmap=True)
    if not isinstance(saved, dict) or not {"state_dict", "loops"} <= saved.keys():
        raise InputError(f"{last} is not a checkpoint of training; remove it to start again")
    return last


def _read(recipe: Path) -> dict[str, Any]:
    try:
        values = parse_json(recipe.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{recipe} was not written by this program: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{recipe} was not written by this program: it holds no recipe")
    return values


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested keys into dotted ones."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def export_best(folder: Path, model: MambaMatcher) -> None:
    """Write the weights of `best.ckpt` as a model folder."""
    path = folder / BEST
    if not path.exists():
        raise TrainingError(f"there is nothing to export in {folder}: no epoch was finished")
    model.load_state_dict(checkpoint_weights(path))
    save_pretrained(model.eval(), folder / "model", overwrite=True)
