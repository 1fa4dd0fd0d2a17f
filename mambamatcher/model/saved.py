"""Where saved models are and what their files are called. Free of PyTorch, as the ONNX runtime needs it too."""

import json
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from mambamatcher.errors import ConfigError, WeightsError
from mambamatcher.extras import require
from mambamatcher.io.atomic import read_settings
from mambamatcher.registry import unknown

WEIGHTS, CONFIG, GRAPH = "model.safetensors", "config.json", "encoder.onnx"
INT8_GRAPH = "encoder-int8.onnx"
INT8, SCALE = "|int8", "|scale"  # what follows a weight's name where its quantised values and their scales are meant
PIXELS, FEATURES, FINGERPRINT = "pixels", "features", "mambamatcher"  # input, output and a key of the graph's metadata
DIGEST = "digest"  # another key of it: names the graph itself
_ASSETS = Path(__file__).parents[1] / "assets"
SHIPPED = {name: _ASSETS / name for name in ("default", "lite")}  # models that come with the package
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


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


def require_saved(folder: Path) -> None:
    """Refuse a folder that lacks a file of a saved model."""
    for name in (WEIGHTS, CONFIG):
        if not (folder / name).is_file():
            raise WeightsError(f"{folder} is not a saved model: it has no {name}")


def read_plain_config(path: Path) -> Any:
    """Read the model's configuration from its `config.json`, as plain values that are not checked yet."""
    values = read_settings(path)
    if not isinstance(values, dict) or "model" not in values:
        raise ConfigError(f"{path} has no key 'model'; it was not written by mambamatcher")
    return values["model"]


def user_cache(kind: str) -> Path:
    """Return the folder of this user's cache for files of one kind. It need not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mambamatcher" / kind


def download(hub_id: str, then: str = "pass backbone.weights=FOLDER (to train: model.backbone.weights=FOLDER)") -> Path:
    """Return the local folder of a hub model; offline, it must be in this user's cache or in the hub's own.

    Args:
        hub_id: Hub id `owner/name`.
        then: End of the error message: what to do with a folder that was downloaded by hand.

    Raises:
        MissingExtraError: huggingface-hub is not installed.
        WeightsError: The model is not in the cache and cannot be downloaded.
    """
    copied = user_cache("weights") / hub_id
    if copied.is_dir():
        return copied
    require("huggingface_hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    wanted = [CONFIG, "calibration.json", GRAPH, INT8_GRAPH, "*.safetensors"]
    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        return Path(snapshot_download(hub_id, allow_patterns=wanted))
    except (OSError, ValueError, HfHubHTTPError) as error:
        raise WeightsError(
            f"the weights of the hub model {hub_id!r} are not on this machine and could not be downloaded; "
            f"download its config.json and model.safetensors from the Hugging Face Hub elsewhere and copy them to "
            f"{copied}, or to any folder, then {then}"
        ) from error
    finally:
        if shown:
            enable_progress_bars()


def sealed(model: Any) -> bytes:
    """Return the content of a graph's file; its metadata names the content, so that damage is noticed.

    Args:
        model: ONNX's `ModelProto`.
    """
    digest = graph_digest(model.graph.SerializeToString())
    for each in model.metadata_props:
        if each.key == DIGEST:
            each.value = digest
            return model.SerializeToString()
    model.metadata_props.add(key=DIGEST, value=digest)
    return model.SerializeToString()


def graph_digest(graph: bytes | memoryview) -> str:
    """Return a short name for the bytes of a graph."""
    return sha256(graph).hexdigest()[:16]


def fingerprint(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return a short name for what a graph of the encoder is made from: the configuration and the weights' shapes.

    The values of the weights are not part of it, as the graph does not hold them; nor is where they came from first.
    """
    backbone = {key: value for key, value in config["backbone"].items() if key not in ("weights", "trainable_blocks")}
    parts = {key: config[key] for key in ("side", "mirror", "features")} | {"backbone": backbone}
    listed = sorted((key, list(shape)) for key, shape in shapes.items())
    return sha256(json.dumps([parts, listed], sort_keys=True).encode()).hexdigest()[:16]
