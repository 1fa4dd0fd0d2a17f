"""Correlation heads in NumPy, for models that ONNX Runtime encodes with: linear ones, and the paper's scan."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32, Int64

from mambamatcher.errors import BackendError, ConfigError, WeightsError
from mambamatcher.extras import naming_extra
from mambamatcher.kernels.availability import compiler_is_disabled
from mambamatcher.kernels.memory import empty
from mambamatcher.matching.runtime import Encoded, EncodedSource, EncodedTarget, Refined
from mambamatcher.matching.scores import WholeMap
from mambamatcher.model.saved import WEIGHTS

EPSILON = 1e-6  # as in `model.correlation`: an all-zero feature gets similarity 0 with everything instead of NaN
BLOCK_ELEMENTS = 2**22  # scores computed at a time, as in `model.correlation`
LINEAR_HEADS, SCAN = ("linear", "mean"), "similarity_scan"
PAIRWISE_FEATURES = ("attention",)  # what ONNX Runtime encodes would depend on the other image
# settings of the scan that the kernels have
SCAN_SETTINGS: dict[str, tuple] = {
    "orders": (["descending"], ["ascending"]),
    "sort_key": ("last", "penultimate", "mean"),
    "positional": ("none",),
    "depth": (1,),
    "norm": (False, True),
    "residual": (False, True),
}
LATER_SETTINGS = {
    "layer_scale": None,
    "standardize": False,
    "steered": False,
    "scope": "pair",
}  # older models lack them
DISCRETIZATIONS = ("euler", "zoh")
BLOCK = "correlation.scans.0.blocks.0."

Weights = dict[str, np.ndarray]
Described = Float32[np.ndarray, "feature position"]
Sampling = Float[np.ndarray, "keypoint source_position"]


@runtime_checkable
class Head(Protocol):
    """What a runtime needs of a correlation head.

    Attributes:
        linear: As of a runtime.
        bytes_per_score: Memory that a whole map takes for each of its scores.
    """

    linear: bool
    bytes_per_score: int

    def correlate(self, source: EncodedSource, target: EncodedTarget) -> Refined:
        """Compute the refined correlation map of two encoded images."""
        ...

    def correlate_at(
        self, source: EncodedSource, target: EncodedTarget, weights: Sampling
    ) -> Float32[np.ndarray, "keypoint ht wt"]:
        """Compute weighted sums of refined scores over source positions."""
        ...


def check_supported(config: dict[str, Any]) -> None:
    """Refuse a model whose correlation cannot be computed in NumPy.

    Raises:
        BackendError: Its head, or a setting of it, is not supported.
        ConfigError: A key is missing.
    """
    try:
        correlation, features = config["correlation"], config["features"]["kind"]
        kind = correlation["kind"]
        problem = repr(kind) if kind not in (*LINEAR_HEADS, SCAN) else None
        if features in PAIRWISE_FEATURES:
            problem = f"features that depend on both images, {features!r}"
        elif kind == SCAN:
            given = {name: correlation[name] for name in SCAN_SETTINGS}
            refused = [name for name, value in given.items() if value not in SCAN_SETTINGS[name]]
            given |= {name: correlation.get(name, value) for name, value in LATER_SETTINGS.items()}
            refused += [name for name, value in LATER_SETTINGS.items() if given[name] != value]
            if refused:
                problem = f"{kind!r} with {refused[0]}={given[refused[0]]!r}"
            elif correlation["mamba"]["discretization"] not in DISCRETIZATIONS:
                problem = f"{kind!r} with mamba.discretization={correlation['mamba']['discretization']!r}"
    except (KeyError, TypeError) as error:
        raise ConfigError(f"the model's configuration lacks a key: {error}") from error
    if problem:
        raise BackendError(
            f"ONNX Runtime runs models with a linear correlation head or the paper's scan, and this one has {problem}; "
            f"use the runtime torch"
        )


def read_head(config: dict[str, Any], levels: int, weights: Weights, threads: int) -> Head:
    """Make the head of a supported model.

    Args:
        config: Configuration of the model.
        levels: Levels that the encoder gives.
        weights: All weights of the model.
        threads: Threads of the scan.

    Raises:
        WeightsError: The weights are not those of such a head.
        MissingExtraError: The model has a scan, and Numba is not installed.
    """
    if config["correlation"]["kind"] == "mean":
        return LinearHead(np.full(levels, 1 / levels, dtype=np.float32), np.float32(0))
    weight, bias = (weights.get(f"correlation.project.{name}") for name in ("weight", "bias"))
    if weight is None or bias is None or (weight.shape, bias.shape) != ((1, levels), (1,)):
        raise _unfit(levels)
    if config["correlation"]["kind"] == SCAN:
        return ScanHead(config["correlation"], levels, weights, threads)
    return LinearHead(weight[0], bias[0])


class LinearHead:
    """A weighted sum of the levels. It is linear in the features, so the sum is one product of all levels at once."""

    linear = True
    bytes_per_score = 8

    def __init__(
        self, level_weights: Float32[np.ndarray, " level"], bias: Float32[np.ndarray, ""] | np.float32
    ) -> None:
        self._level_weights, self._bias = level_weights, bias

    def correlate(self, source: EncodedSource, target: EncodedTarget) -> Refined:
        """Compute the refined correlation map of two encoded images."""
        scores = self._weighted(source).T @ _described(target) + self._bias
        return scores.reshape(*source.shape[2:], *target.shape[2:])

    def correlate_at(
        self, source: EncodedSource, target: EncodedTarget, weights: Sampling
    ) -> Float32[np.ndarray, "keypoint ht wt"]:
        """Compute weighted sums of refined scores over source positions; only these."""
        read = np.flatnonzero(weights.any(axis=0))
        near = weights[:, read].astype(np.float32)
        chosen = source.reshape(*source.shape[:2], 1, -1)[..., read]
        sampled = (near @ self._weighted(chosen).T).reshape(len(weights), *source.shape[:2]).swapaxes(0, 1)
        # the products are divided by the norms of the target's features, which are many more numbers
        scores = sampled @ target.reshape(*target.shape[:2], -1) / _norms(target).reshape(len(target), 1, -1)
        total = scores.sum(axis=0) + near.sum(axis=1, keepdims=True) * self._bias
        return total.reshape(len(weights), *target.shape[2:])

    def _weighted(self, features: Encoded) -> Described:
        """Return normalised features, each level multiplied by its weight in the sum."""
        return _described(features) * np.repeat(self._level_weights, features.shape[1])[:, None]


class ScanHead:
    """The paper's similarity-aware scan, by the Numba kernels."""

    linear = False

    def __init__(self, settings: dict[str, Any], levels: int, weights: Weights, threads: int) -> None:
        with naming_extra("scan"):
            from mambamatcher.kernels.refinement import BlockWeights
            from mambamatcher.kernels.refinement import Head as Layers
        if compiler_is_disabled():
            raise BackendError("the scan of this model needs Numba's compiler; unset NUMBA_DISABLE_JIT")
        own = {key.removeprefix(BLOCK): value for key, value in weights.items() if key.startswith(BLOCK)}
        norm_weight, norm_bias = (
            weights.get(f"correlation.norms.0.{name}") if settings["norm"] else None for name in ("weight", "bias")
        )
        norms = [None if each is None else each.shape for each in (norm_weight, norm_bias)]
        try:
            self._block = BlockWeights.from_state(own)
        except KeyError as error:
            raise _unfit(levels) from error
        if not self._block.fits(levels) or norms != [(levels,) if settings["norm"] else None] * 2:
            raise _unfit(levels)
        weight, bias = (weights[f"correlation.project.{name}"] for name in ("weight", "bias"))
        self._layers = Layers(weight, bias, norm_weight, norm_bias, settings["residual"])
        self._sort_key, self._descending = settings["sort_key"], settings["orders"] == ["descending"]
        self._discretization, self._threads = settings["mamba"]["discretization"], threads
        self.bytes_per_score = 4 * (levels + 8)  # similarities, their order, what sorting needs, and the score

    def correlate(self, source: EncodedSource, target: EncodedTarget) -> Refined:
        """Compute the refined correlation map of two encoded images."""
        from mambamatcher.kernels.refinement import refine

        tokens = _similarities(source, target)
        order = self._order(tokens)
        refined = refine(tokens[None], order[None], self._block, self._layers, self._discretization, self._threads)
        return refined.reshape(*source.shape[2:], *target.shape[2:])

    def correlate_at(
        self, source: EncodedSource, target: EncodedTarget, weights: Sampling
    ) -> Float32[np.ndarray, "keypoint ht wt"]:
        """Compute weighted sums of rows of the whole map: the scan mixes all scores."""
        return WholeMap(self.correlate(source, target)).at(weights)

    def _order(self, tokens: Float32[np.ndarray, "position level"]) -> Int64[np.ndarray, " position"]:
        from mambamatcher.kernels.radix_sort import radix_argsort

        if self._sort_key == "mean":
            similarity = tokens.mean(axis=1)
        else:
            similarity = tokens[:, -1 if self._sort_key == "last" else max(tokens.shape[1] - 2, 0)]
        order = np.empty(len(tokens), np.int64)
        radix_argsort(similarity, self._descending, order)
        return order


def _described(features: Encoded) -> Described:
    """Return normalised features of all levels together, as columns."""
    unit = features / _norms(features)[:, None]
    return unit.reshape(-1, features.shape[2] * features.shape[3])


def _norms(features: Encoded) -> Float32[np.ndarray, "level h w"]:
    return np.maximum(np.sqrt(np.einsum("lchw,lchw->lhw", features, features)), EPSILON)


def _similarities(source: EncodedSource, target: EncodedTarget) -> Float32[np.ndarray, "position level"]:
    """Compute the correlation map with the levels of a position together, a few source positions at a time."""
    levels = len(source)
    rows, columns = (_described(each).reshape(*each.shape[:2], -1) for each in (source, target))
    count, width = rows.shape[2], columns.shape[2]
    similarities = empty(count * width * levels).reshape(count, width, levels)
    at_once = max(1, BLOCK_ELEMENTS // (levels * width))
    for first in range(0, count, at_once):
        part = slice(first, first + at_once)
        similarities[part] = (rows[:, :, part].swapaxes(1, 2) @ columns).transpose(1, 2, 0)
    return similarities.reshape(count * width, levels)


def _unfit(levels: int) -> WeightsError:
    return WeightsError(f"{WEIGHTS} was made for another model: it has no correlation head for {levels} levels")
