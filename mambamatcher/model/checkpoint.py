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
from mambamatcher.errors import ConfigError
from mambamatcher.io.atomic import make_folder, refuse_existing, write_bytes_atomically, write_text_atomically
from mambamatcher.model.backbones.efficientnet_lite import EfficientNetLite
from mambamatcher.model.backbones.weights import check_fit, load_exactly, read_state_dict
from mambamatcher.model.config import from_dict, to_dict
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig
from mambamatcher.model.onnx_export import encoder_graph
from mambamatcher.model.onnx_int8 import with_int8_products
from mambamatcher.model.onnx_int8_conv import float_parts, with_int8_convolutions
from mambamatcher.model.presets import PRESETS
from mambamatcher.model.saved import (
    CONFIG,
    GRAPH,
    INT8_GRAPH,
    SHIPPED,
    WEIGHTS,
    find_pretrained,
    read_plain_config,
    require_saved,
)
from mambamatcher.pause_gc import collection_paused
from mambamatcher.registry import unknown


def save_pretrained(
    model: MambaMatcher, folder: str | PathLike[str], overwrite: bool = False, half: bool = False, graph: bool = False
) -> None:
    """Save a model, including its backbone, for `load_pretrained`.

    Args:
        model: Model to save.
        folder: Folder to write to; it is created if it does not exist.
        overwrite: Whether to replace existing files.
        half: Whether to store float16 weights, which halves the size. They are loaded as float32.
        graph: Whether to write the graph with which ONNX Runtime runs the model without PyTorch, and for a ViT or an
            EfficientNet one with products of bytes. That takes seconds.

    Raises:
        InputError: The folder holds a model and `overwrite` is false.
    """
    folder = Path(folder)
    make_folder(folder)
    for name in (WEIGHTS, CONFIG, GRAPH, INT8_GRAPH):
        refuse_existing(folder / name, overwrite)
    graphs = _graphs(model) if graph else {}
    state = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    if half:
        state = {key: value.half() if value.is_floating_point() else value for key, value in state.items()}

    # safetensors' own writing reports a full disk as an error of its own kind
    write_bytes_atomically(folder / WEIGHTS, save(state), overwrite)
    for name in (GRAPH, INT8_GRAPH):  # of the model that was here before
        (folder / name).unlink(missing_ok=True)
    text = json.dumps({"mambamatcher": __version__, "model": to_dict(model.config)}, indent=2) + "\n"
    write_text_atomically(folder / CONFIG, text, overwrite)
    for name, content in graphs.items():
        write_bytes_atomically(folder / name, content, overwrite)


def _graphs(model: MambaMatcher) -> dict[str, bytes]:
    """Return the graphs of the encoder by the names of their files."""
    plain = encoder_graph(model)
    quantised = with_int8_products(plain)
    if isinstance(model.backbone, EfficientNetLite):
        weights = {key: value.detach().cpu().numpy() for key, value in model.state_dict().items()}
        stays = float_parts(model.backbone.network.residual)
        quantised = with_int8_convolutions(encoder_graph(model, as_products=False), weights, stays)
    return {GRAPH: plain} if quantised is None else {GRAPH: plain, INT8_GRAPH: quantised}


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
    require_saved(folder)
    config = read_config(folder / CONFIG)
    state = read_state_dict(folder / WEIGHTS)
    try:
        with torch.device("meta"):  # allocates nothing, however large the sizes in the file
            check_fit(build_empty(config), state, str(folder))
    except (RuntimeError, OverflowError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{folder / CONFIG} describes a model that cannot be built: {reason}") from error
    model = build_empty(config)
    model.load_state_dict(state)
    return model.eval()


def build_empty(config: ModelConfig) -> MambaMatcher:
    """Build a model whose weights are loaded next, all of them, so that its backbone need not load its own."""
    model = MambaMatcher(replace(config, backbone=replace(config.backbone, weights="random")))
    model.config = config
    return model


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
    changed = build_empty(config)
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
    return from_dict(ModelConfig, read_plain_config(path))
