"""The folder of a training run: created once, locked while it is trained in, and checked before it is resumed."""

import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.io.atomic import InUseError, make_folder, open_lines, parse_json, write_text_atomically
from mambamatcher.model.backbones.weights import check_fit, reading
from mambamatcher.model.checkpoint import save_pretrained
from mambamatcher.model.config import to_dict
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.training.recipe import Recipe
from mambamatcher.training.start import model_weights

RECIPE, LOCK, LAST, BEST, MODEL = "recipe.json", "run.lock", "last.ckpt", "best.ckpt", "model"
# Loader workers of a killed process hold its lock until they notice, at most five seconds later.
ORPHAN_SECONDS = 7.0


@contextmanager
def opened(folder: Path, recipe: Recipe, model: MambaMatcher, resume: bool) -> Iterator[Path | None]:
    """Create a run's folder or open that of a run to resume, and keep other processes out of it.

    Args:
        folder: The folder.
        recipe: The recipe of the run.
        model: The model to be trained, which a checkpoint must fit.
        resume: Whether to continue the run in the folder.

    Yields:
        The checkpoint to continue from; None at the start.

    Raises:
        InputError: The folder is in use, holds another run or files of the user's, or has no run to resume.
        ConfigError: The run to resume has another recipe.
        WeightsError: Its checkpoint is damaged or does not fit the model.
    """
    written = folder / RECIPE
    if resume and not written.exists():
        raise InputError(f"there is no run to resume in {folder}; start it without --resume")
    make_folder(folder)
    with _locked(folder / LOCK):
        if resume:
            yield find_run(folder, recipe, model)
            return
        if written.exists():
            raise InputError(f"{folder} holds a run already; resume it with --resume or choose another folder")
        for name in (LAST, BEST, MODEL):
            if (folder / name).exists():
                raise InputError(f"{folder / name} exists already and training would replace it; choose another folder")
        write_text_atomically(written, json.dumps(to_dict(recipe), indent=2) + "\n")
        yield None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    deadline = time.monotonic() + ORPHAN_SECONDS
    while True:
        try:
            file = open_lines(path)
            break
        except InUseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    with file:
        yield


def find_run(folder: Path, recipe: Recipe, model: MambaMatcher) -> Path | None:
    """Return the last checkpoint of a run, if there is one, and check that this recipe can resume it."""
    before, now = _flatten(_read(folder / RECIPE)), _flatten(to_dict(recipe))
    changed = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    if changed:
        key = changed[0]
        raise ConfigError(
            f"{folder} was started with another recipe: {key} was {before.get(key)!r} and is now {now.get(key)!r}"
            + (f" ({len(changed)} keys differ)" if len(changed) > 1 else "")
        )
    last, best = folder / LAST, folder / BEST
    if not last.exists():
        return None
    if not best.exists():
        raise InputError(
            f"{best} was removed, so the best weights of the run are lost; put it back, or copy {LAST} to {BEST}"
        )
    for path in (last, best):
        saved = _read_checkpoint(path, averaged=recipe.averaging is not None)
        check_fit(model, model_weights(saved["state_dict"]), str(path))
    return last


def _read_checkpoint(path: Path, averaged: bool) -> dict[str, Any]:
    """Read a checkpoint after comparing every byte with its checksum, which PyTorch writes but does not check."""
    with reading(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        saved = None if damaged else torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    if damaged:
        raise InputError(f"{path} is damaged ({damaged} has another checksum); restore it from a copy, or start again")
    needed = ["state_dict", "loops", "optimizer_states", "lr_schedulers", "callbacks", "epoch", "global_step"]
    needed += ["current_model_state"] if averaged else []
    for key in needed:
        if not isinstance(saved, dict) or key not in saved:
            raise InputError(f"{path} is not a checkpoint of this run: it has no {key}; restore it, or start again")
    assert isinstance(saved, dict)
    return saved


def _read(recipe: Path) -> dict[str, Any]:
    try:
        values = parse_json(recipe.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{recipe} was not written by this program: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{recipe} was not written by this program: it holds no recipe")
    return values


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested keys into dotted ones."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def export_best(folder: Path, model: MambaMatcher) -> None:
    """Write the weights of `best.ckpt` as a model folder."""
    model.load_state_dict(model_weights(_read_checkpoint(folder / BEST, averaged=False)["state_dict"]))
    save_pretrained(model.eval(), folder / MODEL, overwrite=True)
