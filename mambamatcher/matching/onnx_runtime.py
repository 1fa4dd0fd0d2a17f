"""A saved model run by ONNX Runtime: no PyTorch, quick to start, and half the time of a convolutional backbone."""

import os
from collections.abc import Hashable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32
from safetensors import SafetensorError
from safetensors.numpy import load

from mambamatcher.errors import BackendError, ConfigError, InputError, WeightsError
from mambamatcher.matching import memory_guard
from mambamatcher.matching.onnx_check import GraphOutline, read_outline
from mambamatcher.matching.runtime import Encoded, EncodedSource, EncodedTarget, Pixels, Refined
from mambamatcher.model.config import from_dict
from mambamatcher.model.saved import (
    CONFIG,
    FEATURES,
    FINGERPRINT,
    GRAPH,
    PIXELS,
    WEIGHTS,
    fingerprint,
    read_plain_config,
    require_saved,
)
from mambamatcher.model.transfer_settings import Transfer

LINEAR_HEADS = ("linear", "mean")
EPSILON = 1e-6  # as in `model.correlation`: an all-zero feature gets similarity 0 with everything instead of NaN
Weights = dict[str, np.ndarray]
Described = Float32[np.ndarray, "feature position"]


class OnnxRuntime:
    """The encoder's graph run by ONNX Runtime, with the weights of `model.safetensors`; a linear head in NumPy.

    Args:
        folder: Folder of a saved model.
        graph: The encoder's graph, if it is not in the folder.
        threads: Threads that encode; by default `default_threads()`.

    Raises:
        WeightsError: The folder is not a saved model, or its files do not fit together.
        ConfigError: The configuration cannot be read or is invalid.
        BackendError: Its correlation aggregation is not linear, or ONNX Runtime is not installed.
    """

    linear = True

    def __init__(self, folder: Path, graph: bytes | None = None, threads: int | None = None) -> None:
        require_saved(folder)
        self.config = read_plain_config(folder / CONFIG)
        if threads is not None and threads < 1:
            raise InputError(f"threads must be at least 1, got {threads}")
        self.side, self.transfer, self._head = _read_settings(self.config)
        self._folder, self._threads = folder, threads
        # kept, so that a copy in another process, perhaps on another machine, has the same
        self._graph = (folder / GRAPH).read_bytes() if graph is None else graph
        self._content = (folder / WEIGHTS).read_bytes()
        self._hash: str | None = None
        self._start()

    def _start(self) -> None:
        path = self._folder / GRAPH
        outline = read_outline(self._graph, str(path))
        weights = _read_weights(self._content, self._folder / WEIGHTS)
        _check_fit(outline, self.config, weights, self._folder)
        self._session = _session(self._graph, {key: weights[key] for key in outline.weights}, self._threads, path)
        shape = self._session.get_outputs()[0].shape
        if len(shape) != 4 or not all(isinstance(size, int) and size > 0 for size in shape):
            raise WeightsError(f"{path} gives features of shape {shape}; export the model again")
        self._level_weights, self._bias = _level_weights(self._head, shape[0], weights)
        self._stride = self.side // shape[2]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def version(self) -> Hashable:
        """The weights never change."""
        return 0

    def weights_hash(self) -> str:
        """Return a short digest of the weights as float32, the same as that of the PyTorch model."""
        if self._hash is None:
            hasher = sha256()
            for name, value in sorted(_read_weights(self._content, self._folder / WEIGHTS).items()):
                hasher.update(name.encode())
                hasher.update(value.astype(np.float32).tobytes())
            self._hash = hasher.hexdigest()[:16]
        return self._hash

    def moved(self, device: str | None) -> "OnnxRuntime":
        """Return this runtime, which computes on the CPU only."""
        if device not in (None, "cpu"):
            raise InputError(f"ONNX Runtime computes on the CPU, not on {device!r}; use the runtime torch")
        return self

    def encode(self, pixels: Pixels) -> Encoded:
        """Compute everything that depends on one image alone."""
        self._check_memory(pair=False)
        try:
            return self._session.run([FEATURES], {PIXELS: pixels})[0]
        except Exception as error:  # its errors have no common base class
            raise WeightsError(f"ONNX Runtime cannot run {self._folder / GRAPH}: {_reason(error)}") from error

    def correlate(self, source: EncodedSource, target: EncodedTarget) -> Refined:
        """Compute the refined correlation map of two encoded images."""
        scores = self._weighted(source).T @ _described(target) + self._bias
        return scores.reshape(*source.shape[2:], *target.shape[2:])

    def correlate_at(
        self,
        source: EncodedSource,
        target: EncodedTarget,
        weights: Float[np.ndarray, "keypoint source_position"],
    ) -> Float32[np.ndarray, "keypoint ht wt"]:
        """Compute weighted sums of refined scores over source positions; only these."""
        read = np.flatnonzero(weights.any(axis=0))
        near = weights[:, read].astype(np.float32)
        chosen = source.reshape(*source.shape[:2], 1, -1)[..., read]
        scores = near @ self._weighted(chosen).T @ _described(target) + near.sum(axis=1, keepdims=True) * self._bias
        return scores.reshape(len(weights), *target.shape[2:])

    def check_memory(self) -> None:
        """Refuse a pair that would not fit into memory."""
        self._check_memory(pair=True)

    def _check_memory(self, pair: bool) -> None:
        def needed_at(side: int) -> int:
            encoding = 2 * memory_guard.FLOATS_PER_PIXEL * side**2
            positions = (side // self._stride) ** 2
            return 4 * max(encoding, 2 * positions**2 if pair else 0) + memory_guard.LIBRARIES

        memory_guard.check_memory(needed_at, self.side, self._stride, pair)

    def _weighted(self, features: Encoded) -> Described:
        """Return normalised features, each level multiplied by its weight in the sum."""
        return _described(features) * np.repeat(self._level_weights, features.shape[1])[:, None]


def default_threads() -> int:
    """Return how many threads encode by default: the cores this process may use, at most OMP_NUM_THREADS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


def _read_settings(config: Any) -> tuple[int, Transfer, str]:
    """Return side, transfer and the kind of the correlation head of a configuration."""
    try:
        side, head = config["side"], config["correlation"]["kind"]
        config["mirror"], config["backbone"]["kind"], config["features"]["kind"]
    except (KeyError, TypeError) as error:
        raise ConfigError(f"the model's configuration lacks a key: {error}") from error
    transfer = from_dict(Transfer, config.get("transfer", {}), "transfer.")
    if not isinstance(side, int):
        raise ConfigError(f"side must be a whole number, got {side!r}")
    if head not in LINEAR_HEADS:
        raise BackendError(
            f"ONNX Runtime runs models with a linear correlation head, and this one has {head!r}; use the runtime torch"
        )
    return side, transfer, head


def _read_weights(content: bytes, path: Path) -> Weights:
    """Read weights; floats become float32."""
    try:
        weights = load(content)
    except (SafetensorError, RuntimeError, TypeError, ValueError, LookupError) as error:
        raise WeightsError(f"cannot read weights from {path}: {_reason(error)}") from error
    for key, value in weights.items():
        if np.issubdtype(value.dtype, np.floating):
            weights[key] = value = value.astype(np.float32, copy=False)
        elif value.dtype != np.int64:
            raise WeightsError(f"{path} cannot be used: {key!r} holds {value.dtype}, expected float32")
        if not np.isfinite(value).all():
            raise WeightsError(f"{path} cannot be used: {key!r} holds values that are not finite")
    return weights


def _check_fit(outline: GraphOutline, config: Any, weights: Weights, folder: Path) -> None:
    """Refuse a graph that was not made for this configuration and these weights."""
    shapes = {key: value.shape for key, value in weights.items()}
    if outline.metadata.get(FINGERPRINT) != fingerprint(config, shapes):
        raise WeightsError(
            f"{folder / GRAPH} was made for another model than {CONFIG} and {WEIGHTS} describe; remove it, or export "
            f"the model again"
        )
    for key, shape in outline.weights.items():
        if key not in weights or weights[key].shape != shape or weights[key].dtype != np.float32:
            raise WeightsError(f"{folder / GRAPH} was made for another model: {key!r} is not {shape} in {WEIGHTS}")
    if outline.inputs != [PIXELS] or outline.outputs != [FEATURES]:
        raise WeightsError(
            f"{folder / GRAPH} takes {outline.inputs} and gives {outline.outputs}, expected {PIXELS!r} and {FEATURES!r}"
        )


def _level_weights(
    head: str, levels: int, weights: Weights
) -> tuple[Float32[np.ndarray, " level"], Float32[np.ndarray, ""] | np.float32]:
    """Return the weight of each level and the bias of a linear head."""
    if head == "mean":
        return np.full(levels, 1 / levels, dtype=np.float32), np.float32(0)
    weight, bias = (weights.get(f"correlation.project.{name}") for name in ("weight", "bias"))
    if weight is None or bias is None or (weight.shape, bias.shape) != ((1, levels), (1,)):
        raise WeightsError(f"{WEIGHTS} was made for another model: it has no correlation head for {levels} levels")
    return weight[0], bias[0]


def _session(graph: bytes, weights: Weights, threads: int | None, path: Path) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise BackendError("running this model needs onnxruntime; install it with: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or default_threads()
    options.log_severity_level = 4
    # threads that wait by spinning take the cores that other programs need, and wait for each other where they lack one
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    given = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
    options.add_external_initializers(list(weights), given)
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base class
        raise WeightsError(f"ONNX Runtime refuses {path}: {_reason(error)}") from error


def _described(features: Encoded) -> Described:
    """Return normalised features of all levels together, as columns."""
    norm = np.sqrt(np.einsum("lchw,lchw->lhw", features, features))
    unit = features / np.maximum(norm, EPSILON)[:, None]
    return unit.reshape(-1, features.shape[2] * features.shape[3])


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
