"""Save and load models as folders of `model.safetensors` and `config.json`. Loading never runs code from the folder."""

import json
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save

from mambamatcher import __version__
from mambamatcher.errors import ConfigError, WeightsError
from mambamatcher.io.atomic import make_folder, read_settings, refuse_existing, write_atomically, write_text_atomically
from mambamatcher.model.backbones.weights import HUB_ID, check_fit, download, load_exactly, read_state_dict
from mambamatcher.model.config import from_dict, to_dict
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig
from mambamatcher.model.presets import PRESETS
from mambamatcher.pause_gc import collection_paused
from mambamatcher.registry import unknown

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_ASSETS = Path(__file__).parents[1] / "assets"
SHIPPED = {name: _ASSETS / name for name in ("default", "lite")}  # models that come with the package


def save_pretrained(
    model: MambaMatcher, folder: str | PathLike[str], overwrite: bool = False, half: bool = False
) -> None:
    """Save a model, including its backbone, for `load_pretrained`.

    Args:
        model: Model to save.
        folder: Folder to write to; it is created if it does not exist.
        overwrite: Whether to replace existing files.
        half: Whether to store float16 weights, which halves the size. They are loaded as float32.

    Raises:
        InputError: The folder holds a model and `overwrite` is false.
    """
    folder = Path(folder)
    make_folder(folder)
    for name in (WEIGHTS, CONFIG):
        refuse_existing(folder / name, overwrite)
    state = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    if half:
        state = {key: value.half() if value.is_floating_point() else value for key, value in state.items()}

    def write(path: Path) -> None:
        path.write_bytes(save(state))  # safetensors' own writing reports a full disk as an error of its own kind

    write_atomically(folder / WEIGHTS, write, overwrite)
    text = json.dumps({"mambamatcher": __version__, "model": to_dict(model.config)}, indent=2) + "\n"
    write_text_atomically(folder / CONFIG, text, overwrite)


def push_to_hub(model: MambaMatcher, hub_id: str, private: bool = False) -> str:
    """Upload a model to the Hugging Face Hub.

    Args:
        model: Model to upload.
        hub_id: Repository `owner/name`; it is created if it does not exist.
        private: Whether a new repository is private.

    Returns:
        URL of the upload.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(hub_id, private=private, exist_ok=True)
    with TemporaryDirectory() as folder:
        save_pretrained(model, folder)
        return str(api.upload_folder(repo_id=hub_id, folder_path=folder, commit_message="mambamatcher model"))


def load_pretrained(source: str | PathLike[str]) -> MambaMatcher:
    """Load a model written by `save_pretrained`.

    Args:
        source: Folder of the model, or its hub id `owner/name`.

    Returns:
        The model in evaluation mode.

    Raises:
        WeightsError: The folder is not a saved model, or its weights do not match its configuration.
        ConfigError: The configuration cannot be read or is invalid.
    """
    with collection_paused():
        return _load(find_pretrained(source))


def _load(folder: Path) -> MambaMatcher:
    for name in (WEIGHTS, CONFIG):
        if not (folder / name).is_file():
            raise WeightsError(f"{folder} is not a saved model: it has no {name}")
    config = read_config(folder / CONFIG)
    # The folder holds all weights, so the backbone must not load its own.
    empty = replace(config, backbone=replace(config.backbone, weights="random"))
    state = read_state_dict(folder / WEIGHTS)
    try:
        with torch.device("meta"):  # allocates nothing, however large the sizes in the file
            check_fit(MambaMatcher(empty), state, str(folder))
    except (RuntimeError, OverflowError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{folder / CONFIG} describes a model that cannot be built: {reason}") from error
    model = MambaMatcher(empty)
    model.config = config
    model.load_state_dict(state)
    return model.eval()


def find_pretrained(source: str | PathLike[str]) -> Path:
    """Return a model's folder: a folder of that name, a shipped model's, or that of a hub id, downloaded.

    Args:
        source: A folder, `default`, `lite`, or a hub id `owner/name`.

    Raises:
        WeightsError: There is none, or the hub model is not on this machine and cannot be downloaded.
    """
    folder = Path(source).expanduser()
    if not folder.exists() and source in SHIPPED:
        return SHIPPED[str(source)]
    if not folder.exists() and isinstance(source, str) and HUB_ID.fullmatch(source):
        return download(source, then="give that folder instead")
    if not folder.exists():
        raise WeightsError(
            f"{unknown('model', str(source), SHIPPED)} The folder of a saved model or a hub id owner/name works too."
        )
    return folder


def find_config(name: str) -> ModelConfig:
    """Return the configuration of a saved model, a shipped one, or a preset.

    Raises:
        ConfigError: There is none of that name, or it cannot be read.
    """
    if Path(name).is_dir() or name in SHIPPED:
        return read_config(find_pretrained(name) / CONFIG)
    if name not in PRESETS:
        raise unknown("model", name, (*SHIPPED, *PRESETS))
    return PRESETS[name]()


def reconfigured(model: MambaMatcher, config: ModelConfig) -> MambaMatcher:
    """Return a model with the same weights and another configuration, such as another image size or readout."""
    changed = MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random")))
    changed.config = config
    load_exactly(changed, dict(model.state_dict()), "the model's weights")
    return changed.eval()


@torch.no_grad()
def take_mean(model: MambaMatcher, others: Sequence[MambaMatcher]) -> None:
    """Replace the weights of a model by the mean of its own and those of others.

    Averaging runs that started from the same weights often improves accuracy.

    Raises:
        ConfigError: The models have different architectures.
    """
    states = [each.state_dict() for each in (model, *others)]
    if len({tuple((key, value.shape) for key, value in state.items()) for state in states}) > 1:
        raise ConfigError("the models to average have different architectures; give models of one architecture")
    for key, value in states[0].items():
        if value.is_floating_point():
            value.copy_(torch.stack([state[key] for state in states]).mean(dim=0))


def read_config(path: Path) -> ModelConfig:
    """Read the configuration of a model from its `config.json`."""
    values = read_settings(path)
    if not isinstance(values, dict) or "model" not in values:
        raise ConfigError(f"{path} has no key 'model'; it was not written by mambamatcher")
    return from_dict(ModelConfig, values["model"])
