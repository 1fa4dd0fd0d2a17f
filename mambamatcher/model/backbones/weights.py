"""Find, download and read pretrained weights. No code is ever unpickled."""

import pickle
import re
import struct
import zipfile
import zlib
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
from mambamatcher.model.saved import HUB_ID, download
from mambamatcher.model.weight_values import check_dtype, check_finite, expected_dtype, first_line
from mambamatcher.registry import unknown

# exceptions that safetensors and torch.load raise for broken files
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
    zipfile.BadZipFile,
    zlib.error,
)

StateDict = dict[str, Tensor]

_HEADS = ("classifier.", "fc.")  # weights of classifiers, which no level uses


def read_state_dict(path: Path) -> StateDict:
    """Read weights from a file.

    Args:
        path: A `.safetensors` file, the ONNX graph of `vit-s-focus`, or a `.pth`, `.pt` or `.bin` file of tensors.

    Raises:
        WeightsError: The file cannot be read or holds something else.
    """
    if path.suffix == ".onnx":
        return read_focus(path)
    with reading(path):
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
    for wrapper in ("model", "teacher", "state_dict"):  # keys under which published checkpoints nest their weights
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise WeightsError(
            f"{path} holds {type(state).__name__}, not a dictionary of tensors; give a file with a state dict"
        )
    return state


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any exception caused by a broken or malicious file into a `WeightsError` that names the file."""
    try:
        yield
    except _UNREADABLE as error:
        raise WeightsError(f"cannot read weights from {path}: {first_line(error)}") from error


def rename(key: str, names: Iterable[tuple[str, str]]) -> str:
    """Apply the first pattern that matches a key; a key without a match is returned as is."""
    for pattern, replacement in names:
        key, found = re.subn(pattern, replacement, key)
        if found:
            break
    return key


def load_exactly(module: nn.Module, state: StateDict, origin: str) -> None:
    """Load weights whose keys and shapes must match the module exactly; `origin` names them in errors."""
    check_fit(module, state, origin)
    module.load_state_dict(state)


def check_fit(module: nn.Module, state: StateDict, origin: str) -> None:
    """Check that the keys and shapes of weights match a module exactly, and that their values can be used.

    Args:
        module: Module to load the weights into.
        state: Weights.
        origin: Where the weights come from, for error messages.

    Raises:
        WeightsError: A key is missing or unknown, a shape differs, or a value is of another type or not finite.
    """
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
        _check_values(key, value, expected[key].dtype, origin)


def _check_values(key: str, value: Tensor, dtype: torch.dtype, origin: str) -> None:
    """Refuse a weight that would change when it is converted to `dtype`, and one that is not finite."""
    given, expected = (str(each).removeprefix("torch.") for each in (value.dtype, dtype))
    check_dtype(key, given, expected, origin)
    check_finite(key, bool(torch.isfinite(value.to(dtype)).all()), expected, origin)


def unknown_weights(weights: str, names: Iterable[str]) -> WeightsError:
    """Return an error for weights that are neither one of these names nor a file or folder."""
    return WeightsError(f"{unknown('weights', weights, names)} An existing file or folder works too.")


def load_transformers(
    model_class: Any, config: Any, weights: str, hub_id: str, translate: Callable[[StateDict], StateDict]
) -> Any:
    """Build a transformers model with the requested weights.

    Args:
        model_class: Class of the model.
        config: Its transformers configuration.
        weights: "pretrained", "random", "vit-s-focus", a hub id, a folder or a file.
        hub_id: Hub id of the "pretrained" weights.
        translate: Converts the keys of an official checkpoint to those of transformers; returns others as is.

    Raises:
        WeightsError: The weights cannot be found or read, or do not match the model.
    """
    if weights == "random":
        return model_class(config)
    path = focus_file() if weights == FOCUS else Path(weights).expanduser()
    if path.is_file():
        return _from_state(model_class, config, translate(read_state_dict(path)), str(path))
    if path.is_dir():
        return _from_state(model_class, config, _read_folder(path), f"folder {path}")
    if path.is_absolute() or weights.startswith((".", "~")):
        raise WeightsError(f"there is no weights file or folder at {weights}")
    if weights != "pretrained" and not HUB_ID.fullmatch(weights):
        raise unknown_weights(weights, ("pretrained", "random", FOCUS, "OWNER/NAME on the hub"))
    folder = download(hub_id if weights == "pretrained" else weights)
    return _from_state(model_class, config, _read_folder(folder), f"folder {folder}")


def _read_folder(folder: Path) -> StateDict:
    """Read the weights that transformers saved in a folder, in one file or in several."""
    for pattern in ("model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin"):
        if files := sorted(folder.glob(pattern)):
            return {key: value for file in files for key, value in read_state_dict(file).items()}
    raise WeightsError(f"folder {folder} holds no weights; it needs a file model.safetensors")


def _from_state(model_class: Any, config: Any, state: StateDict, origin: str) -> Any:
    """Build a transformers model with weights that must match it, apart from those of a classifier."""
    for key, value in state.items():
        _check_values(key, value, getattr(torch, expected_dtype(key)), origin)
    with _quiet():
        try:
            model, info = model_class.from_pretrained(
                None, config=config, state_dict=state, output_loading_info=True, ignore_mismatched_sizes=True
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise WeightsError(f"cannot load weights from {origin}: {str(error).strip().splitlines()[0]}") from error
    problems = [f"{key!r} is missing" for key in sorted(info["missing_keys"])]
    problems += [
        f"{key!r} is {tuple(given)}, expected {tuple(wanted)}" for key, given, wanted in sorted(info["mismatched_keys"])
    ]
    problems += [f"{key!r} is not known" for key in sorted(info["unexpected_keys"]) if not key.startswith(_HEADS)]
    if problems:
        raise WeightsError(f"{origin} was made for another model: {problems[0]} ({len(problems)} do not match)")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the progress bars and reports of transformers, and restore the caller's settings afterwards."""
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
