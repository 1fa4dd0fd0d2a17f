"""A saved model run by ONNX Runtime: no PyTorch, quick to start, and half the time of a convolutional backbone."""

import os
from collections.abc import Hashable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int8

from mambamatcher.errors import BackendError, ConfigError, InputError, WeightsError
from mambamatcher.matching import memory_guard
from mambamatcher.matching.onnx_check import GraphOutline, read_outline
from mambamatcher.matching.onnx_heads import Weights, check_supported, read_head
from mambamatcher.matching.runtime import Encoded, EncodedSource, EncodedTarget, Pixels, Refined
from mambamatcher.model.config import from_dict
from mambamatcher.model.saved import (
    CONFIG,
    FEATURES,
    FINGERPRINT,
    GRAPH,
    INT8,
    INT8_GRAPH,
    PIXELS,
    SCALE,
    WEIGHTS,
    fingerprint,
    read_plain_config,
    require_saved,
)
from mambamatcher.model.transfer_settings import Transfer
from mambamatcher.model.weight_values import first_line, read_arrays

# 7 bits: processors without the instructions for it add two products in 16 bits, which 8 bits could overflow
LEVELS = 64
MOST_AT_ONCE = 8  # images encoded at once, each with its activations in memory


class OnnxRuntime:
    """The encoder's graph run by ONNX Runtime, with the weights of `model.safetensors`; the head in NumPy.

    Args:
        folder: Folder of a saved model.
        graph: The encoder's graph, if it is not in the folder.
        threads: Threads that encode; by default `default_threads()`.
        int8: Whether to compute with quantised weights, which is faster and changes matches a little.

    Raises:
        WeightsError: The folder is not a saved model, or its files do not fit together.
        ConfigError: The configuration cannot be read or is invalid.
        BackendError: Its correlation head is not supported, or ONNX Runtime is not installed.
        MissingExtraError: It has a scan, and Numba is not installed.
    """

    def __init__(
        self, folder: Path, graph: bytes | None = None, threads: int | None = None, int8: bool = False
    ) -> None:
        require_saved(folder)
        self.config = read_plain_config(folder / CONFIG)
        if threads is not None and threads < 1:
            raise InputError(f"threads must be at least 1, got {threads}")
        self.side, self.transfer = _read_settings(self.config)
        check_supported(self.config)
        self._folder, self._threads, self._int8, self.at_once = folder, threads, int8, 1
        # kept, so that a copy in another process, perhaps on another machine, has the same
        self._graph = self._path.read_bytes() if graph is None else graph
        self._content = (folder / WEIGHTS).read_bytes()
        self._hash: str | None = None
        self._start()

    @property
    def _path(self) -> Path:
        return self._folder / (INT8_GRAPH if self._int8 else GRAPH)

    def _start(self) -> Any:
        path = self._path
        outline = read_outline(self._graph, str(path))
        weights = read_arrays(self._content, str(self._folder / WEIGHTS))
        _check_fit(outline, self.config, weights, path)
        session = _session(self._graph, _given(outline, weights), self._threads, path)
        shape = self._shape = session.get_outputs()[0].shape
        if len(shape) != 4 or not all(isinstance(size, int) and size > 0 for size in shape):
            raise WeightsError(f"{path} gives features of shape {shape}; export the model again")
        self._head = read_head(self.config, shape[0], weights, self._threads or default_threads())
        self.linear = self._head.linear
        self._stride = self.side // shape[2]
        self._session: Any = session
        return session

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_session", "_head")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def version(self) -> Hashable:
        """The weights never change."""
        return 0

    def weights_hash(self) -> str:
        """Return a short digest of the weights as float32, the same as of the PyTorch model; int8 adds its name."""
        if self._hash is None:
            hasher = sha256()
            for name, value in sorted(read_arrays(self._content, str(self._folder / WEIGHTS)).items()):
                hasher.update(name.encode())
                hasher.update(value.astype(np.float32).tobytes())
            self._hash = hasher.hexdigest()[:16] + ("-int8" if self._int8 else "")
        return self._hash

    def moved(self, device: str | None) -> "OnnxRuntime":
        """Return this runtime, which computes on the CPU only."""
        if device not in (None, "cpu"):
            raise InputError(f"ONNX Runtime computes on the CPU, not on {device!r}; use the runtime torch")
        return self

    def for_many(self) -> "OnnxRuntime":
        """Return a runtime that encodes several images at once, with fewer threads for each: none waits for another.

        A model with a scan needs its threads for each pair and stays as it is.
        """
        threads = self._threads or default_threads()
        at_once = min(threads, MOST_AT_ONCE)
        if at_once == 1 or self.at_once > 1 or not self.linear:
            return self
        self._session = None  # two of them would take twice the memory; this one is made again if it is used again
        other = OnnxRuntime.__new__(OnnxRuntime)
        other.__setstate__({**self.__getstate__(), "_threads": threads // at_once, "at_once": at_once})
        return other

    def encode(self, pixels: Pixels) -> Encoded:
        """Compute everything that depends on one image alone."""
        self._check_memory(pair=False)
        session = self._session or self._start()  # kept here, since `for_many` may drop it meanwhile
        try:
            features = session.run([FEATURES], {PIXELS: pixels})[0]
        except Exception as error:  # its errors have no common base class
            raise WeightsError(f"ONNX Runtime cannot run {self._path}: {first_line(error)}") from error
        if list(features.shape) != self._shape or features.dtype != np.float32:  # ONNX Runtime only warns
            raise WeightsError(f"{self._path} gives other features than it says; export the model again")
        return features

    def correlate(self, source: EncodedSource, target: EncodedTarget) -> Refined:
        """Compute the refined correlation map of two encoded images."""
        return self._head.correlate(source, target)

    def correlate_at(
        self,
        source: EncodedSource,
        target: EncodedTarget,
        weights: Float[np.ndarray, "keypoint source_position"],
    ) -> Float32[np.ndarray, "keypoint ht wt"]:
        """Compute weighted sums of refined scores over source positions; a linear head computes no others."""
        return self._head.correlate_at(source, target, weights)

    def check_memory(self) -> None:
        """Refuse a pair that would not fit into memory."""
        self._check_memory(pair=True)

    def _check_memory(self, pair: bool) -> None:
        def needed_at(side: int) -> int:
            encoding = 4 * 2 * memory_guard.FLOATS_PER_PIXEL * side**2
            correlating = (side // self._stride) ** 4 * self._head.bytes_per_score
            return max(encoding, correlating if pair else 0) + memory_guard.LIBRARIES

        memory_guard.check_memory(needed_at, self.side, self._stride, pair)


def default_threads() -> int:
    """Return how many threads encode by default: the cores this process may use, at most OMP_NUM_THREADS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


def _read_settings(config: Any) -> tuple[int, Transfer]:
    """Return side and transfer of a configuration."""
    try:
        side = config["side"]
        config["mirror"], config["backbone"]["kind"]
    except (KeyError, TypeError) as error:
        raise ConfigError(f"the model's configuration lacks a key: {error}") from error
    transfer = from_dict(Transfer, config.get("transfer", {}), "transfer.")
    if not isinstance(side, int):
        raise ConfigError(f"side must be a whole number, got {side!r}")
    return side, transfer


def _check_fit(outline: GraphOutline, config: Any, weights: Weights, path: Path) -> None:
    """Refuse a graph that was not made for this configuration and these weights."""
    shapes, names = {key: value.shape for key, value in weights.items()}, outline.weights.keys()
    if outline.metadata.get(FINGERPRINT) != fingerprint(config, shapes):
        raise WeightsError(
            f"{path} was made for another model than {CONFIG} and {WEIGHTS} describe; remove it, or export the model "
            f"again"
        )
    for name, shape in outline.weights.items():
        key, mark, rest = name.partition("|")
        weight = weights.get(key)
        expected = shape if weight is None or mark + rest != SCALE else (*shape, *weight.shape[1:])
        if weight is None or weight.shape != expected or weight.dtype != np.float32:
            raise WeightsError(f"{path} was made for another model: {key!r} is not {expected} in {WEIGHTS}")
        # ONNX Runtime would look for a file of what it is not given
        if mark and not (mark + rest in (INT8, SCALE) and len(expected) == 2 and {key + INT8, key + SCALE} <= names):
            raise WeightsError(f"{path} asks for {name!r}, which {WEIGHTS} does not give; export the model again")
    if outline.inputs != [PIXELS] or outline.outputs != [FEATURES]:
        raise WeightsError(
            f"{path} takes {outline.inputs} and gives {outline.outputs}, expected {PIXELS!r} and {FEATURES!r}"
        )


def _given(outline: GraphOutline, weights: Weights) -> Weights:
    """Return what the graph asks for: weights, or their quantised values and scales."""
    given = {}
    for name in outline.weights:
        if name.endswith(INT8):
            key = name.removesuffix(INT8)
            given[name], given[key + SCALE] = quantised(weights[key])
        elif not name.endswith(SCALE):
            given[name] = weights[name]
    return given


def quantised(
    weight: Float32[np.ndarray, "output input"],
) -> tuple[Int8[np.ndarray, "output input"], Float32[np.ndarray, " output"]]:
    """Round weights to whole multiples of a scale for each output, from -LEVELS to LEVELS.

    Example:
        >>> values, scale = quantised(np.float32([[0.5, -1.0], [0.0, 0.0]]))
        >>> values.tolist()
        [[32, -64], [0, 0]]
    """
    scale = np.maximum(np.abs(weight).max(axis=1) / LEVELS, np.finfo(np.float32).tiny)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


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
    # else a file that looks like one could be read in ONNX Runtime's own format, which nobody has checked
    options.add_session_config_entry("session.load_model_format", "ONNX")
    given = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
    options.add_external_initializers(list(weights), given)
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base class
        raise WeightsError(f"ONNX Runtime refuses {path}: {first_line(error)}") from error
