"""Finding and reading pretrained weights. Nothing here ever unpickles code."""

import pickle
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mambamatcher.errors import WeightsError
from mambamatcher.model.backbones.focus import FOCUS, focus_file, read_focus

# what safetensors and torch's reader of pickled tensors raise on broken files
_UNREADABLE = (
    OSError,
    SafetensorError,
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    MemoryError,
    struct.error,
)

StateDict = dict[str, Tensor]


def read_state_dict(path: Path) -> StateDict:
    """Read a `.safetensors` file, the ONNX graph of `vit-s-focus`, or a `.pth`/`.pt`/`.bin` file of plain tensors."""
    if path.suffix == ".onnx":
        return read_focus(path)
    with reading(path):
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
    for wrapper in ("model", "teacher", "state_dict"):  # how published checkpoints are commonly wrapped
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise WeightsError(f"{path} holds {type(state).__name__}, not a dictionary of tensors")
    return state


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a broken or malicious file raises into a `WeightsError` that names it."""
    try:
        yield
    except _UNREADABLE as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise WeightsError(f"cannot read weights from {path}: {reason}") from error


def rename(key: str, names: Iterable[tuple[str, str]]) -> str:
    """Apply the first pattern that fits to a key; a key that none fits stays as it is."""
    for pattern, replacement in names:
        key, found = re.subn(pattern, replacement, key)
        if found:
            break
    return key


def load_exactly(module: nn.Module, state: StateDict, origin: str) -> None:
    """Load weights that must fit key by key and shape by shape."""
    check_fit(module, state, origin)
    module.load_state_dict(state)


def check_fit(module: nn.Module, state: StateDict, origin: str) -> None:
    """Refuse weights that do not fit key by key and shape by shape."""
    expected = module.state_dict()
    missing, extra = sorted(expected.keys() - state.keys()), sorted(state.keys() - expected.keys())
    if missing or extra:
        example = f"{missing[0]!r} is missing" if missing else f"{extra[0]!r} is not known"
        raise WeightsError(
            f"{origin} was made for another model: {example} ({len(missing)} missing, {len(extra)} unknown)"
        )
    for key, value in state.items():
        if value.shape != expected[key].shape:
            raise WeightsError(
                f"{origin} was made for another model: {key!r} is {tuple(value.shape)}, "
                f"expected {tuple(expected[key].shape)}"
            )


def load_transformers(
    model_class: Any, config: Any, weights: str, hub_id: str, translate: Callable[[StateDict], StateDict]
) -> Any:
    """Make a transformers model with the weights a user named.

    `translate` turns an official checkpoint's keys into those of transformers' and leaves others as they are.
    """
    if weights == "random":
        return model_class(config)
    path = focus_file() if weights == FOCUS else Path(weights).expanduser()
    if path.is_file():
        state = translate(read_state_dict(path))
        return _from_pretrained(model_class, None, str(path), config=config, state_dict=state)
    if path.is_dir():
        return _from_pretrained(model_class, path, f"folder {path}", config=config, local_files_only=True)
    if path.is_absolute() or weights.startswith((".", "~")):
        raise WeightsError(f"there is no weights file or folder at {weights}")
    folder = download(hub_id if weights == "pretrained" else weights)
    return _from_pretrained(model_class, folder, f"folder {folder}", config=config, local_files_only=True)


def download(hub_id: str, then: str = "pass backbone.weights=FOLDER") -> Path:
    """Return the folder of a hub model, from the cache if the hub cannot be reached; `then` ends the advice if not."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    with _quiet():
        try:
            return Path(snapshot_download(hub_id, allow_patterns=["config.json", "calibration.json", "*.safetensors"]))
        except (OSError, ValueError, HfHubHTTPError) as error:
            raise WeightsError(
                f"weights of the hub model {hub_id!r} are not on this machine and could not be downloaded; where there "
                f"is a network, download its config.json and model.safetensors into one folder, then {then}"
            ) from error


def _from_pretrained(model_class: Any, source: str | Path | None, origin: str, **kwargs: Any) -> Any:
    """Call transformers' loader and refuse anything that does not fit completely."""
    with _quiet():
        try:
            model, info = model_class.from_pretrained(
                source, output_loading_info=True, ignore_mismatched_sizes=True, **kwargs
            )
        except (OSError, RuntimeError, ValueError, SafetensorError) as error:
            raise WeightsError(f"cannot load weights from {origin}: {str(error).strip().splitlines()[0]}") from error
    problems = [f"{key!r} is missing" for key in sorted(info["missing_keys"])]
    problems += [
        f"{key!r} is {tuple(given)}, expected {tuple(wanted)}" for key, given, wanted in sorted(info["mismatched_keys"])
    ]
    if problems:
        raise WeightsError(f"{origin} was made for another model: {problems[0]} ({len(problems)} do not fit)")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' progress bars and load reports off the terminal, without changing the caller's settings."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
