"""The encoder's graph of a convolutional backbone with convolutions of bytes, in about half the time of float32.

Activations have scales found on the photos of this package, one for each tensor. Weights get theirs, one for each
output channel, when ONNX Runtime loads the graph: batch norm, scale and rounding are nodes that depend on weights
alone, which it computes once. So this graph, too, takes its weights from `model.safetensors`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

import mambamatcher
from mambamatcher.io.images import load_image, resize_square, to_bytes
from mambamatcher.model.saved import PIXELS, sealed

FLOAT_BLOCKS = 5  # the first ones stay float32: rounding them changes features most
LAST_RANGE = 0.5  # of the aggregation's output: few values lie beyond, and all others are rounded half as much
LEVELS = 64  # of a weight: 7 bits, as in `matching.onnx_runtime`
CROPS = 24  # on which ranges of activations are found
OPSET = 21  # the last that every ONNX Runtime in use fuses convolutions of bytes from
_TINY = float(np.finfo(np.float32).tiny)

Range = Float[np.ndarray, "2"]


def float_parts(residual: Sequence[bool]) -> list[str]:
    """Return how the names of the weights begin that stay float32 in an EfficientNet.

    Besides the first blocks, these are those whose output is not added to their input: nothing exact would remain.

    Args:
        residual: Which blocks add their input.
    """
    blocks = (number for number, adds in enumerate(residual) if number < FLOAT_BLOCKS or not adds)
    return ["backbone.network.stem.", *(f"backbone.network.blocks.{number}." for number in blocks)]


def with_int8_convolutions(content: bytes, weights: dict[str, np.ndarray], stays: Sequence[str]) -> bytes | None:
    """Replace convolutions by those of bytes: those followed by a batch norm, and the 3×3 ones of the aggregation.

    Args:
        content: A graph as `encoder_graph` returns it, with convolutions in the aggregation.
        weights: The weights by their names in the graph.
        stays: How the names of weights begin whose convolutions stay float32.

    Returns:
        The new graph, or None if there is no such convolution.
    """
    import onnx

    model = onnx.load_from_string(content)
    chosen = _chosen(model.graph, tuple(stays))
    if not chosen:
        return None
    outputs = {_activated(model.graph, each) for each in chosen.values()}
    ranges = _ranges(model, weights, outputs | {node.input[0] for node in model.graph.node if node.output[0] in chosen})
    last = list(chosen.values())[-1]
    if last in chosen:  # of the aggregation
        ranges[last] *= LAST_RANGE
    writer = _Writer(ranges)
    norms = set(chosen.values()) - chosen.keys()
    for node in model.graph.node:
        if node.op_type == "BatchNormalization" and node.output[0] in norms:
            continue
        if node.output[0] in chosen:
            norm = next((each for each in model.graph.node if each.output[0] == chosen[node.output[0]]), node)
            writer.convolution(node, None if norm is node else norm)
        else:
            node.input[:] = [writer.rounded(each) if each in outputs else each for each in node.input]
            writer.nodes.append(node)
    read = {name for node in writer.nodes for name in node.input}
    kept = [each for each in model.graph.initializer if each.name in read]
    for repeated, values in ((model.graph.node, writer.nodes), (model.graph.initializer, [*kept, *writer.constants])):
        copies = [each.__class__.FromString(each.SerializeToString()) for each in values]
        del repeated[:]
        repeated.extend(copies)
    model.opset_import[0].version = OPSET
    return sealed(model)


def _chosen(graph: Any, stays: tuple[str, ...]) -> dict[str, str]:
    """Return the output of each convolution to replace, with that of the batch norm behind it or else itself."""
    normalised = {node.input[0]: node.output[0] for node in graph.node if node.op_type == "BatchNormalization"}
    shapes = {each.name: tuple(each.dims) for each in graph.initializer}
    convolutions = [node for node in graph.node if node.op_type == "Conv" and not node.input[1].startswith(stays)]
    backbone = [node.output[0] for node in convolutions if node.output[0] in normalised]
    aggregation = [
        node.output[0] for node in convolutions if len(node.input) == 3 and shapes[node.input[1]][2:] == (3, 3)
    ]
    return {name: normalised[name] for name in backbone} | {name: name for name in aggregation}


def _activated(graph: Any, name: str) -> str:
    """Return the output of the activation that follows, or the name itself."""
    readers = [node for node in graph.node if name in node.input]
    return readers[0].output[0] if len(readers) == 1 and readers[0].op_type in ("Clip", "Relu") else name


def _ranges(model: Any, weights: dict[str, np.ndarray], names: set[str]) -> dict[str, Range]:
    """Return the least and the greatest value of tensors, as means over crops of photos; zero is always inside."""
    import onnx
    import onnxruntime  # type: ignore[import-untyped]

    measured = onnx.ModelProto.FromString(model.SerializeToString())
    wanted = [(name, kind) for name in sorted(names) for kind in ("ReduceMin", "ReduceMax")]
    for name, kind in wanted:
        measured.graph.node.append(onnx.helper.make_node(kind, [name], [f"{name}_{kind}"], keepdims=0))
        measured.graph.output.append(onnx.helper.make_tensor_value_info(f"{name}_{kind}", onnx.TensorProto.FLOAT, []))
    given = {each.name: weights[each.name] for each in model.graph.initializer if each.external_data}
    options = onnxruntime.SessionOptions()
    options.add_external_initializers(
        list(given), [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in given.values()]
    )
    session = onnxruntime.InferenceSession(measured.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = [f"{name}_{kind}" for name, kind in wanted]
    side = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    values = np.mean([session.run(outputs, {PIXELS: crop}) for crop in _crops(side)], axis=0).reshape(-1, 2)
    return {
        name: np.array([min(low, 0.0), max(high, 0.0)]) for name, (low, high) in zip(sorted(names), values, strict=True)
    }


def _crops(side: int) -> Iterator[UInt8[np.ndarray, "3 side side"]]:
    rng = np.random.default_rng(0)
    photos = sorted((Path(mambamatcher.__file__).parent / "assets" / "photos").glob("*.jpg"))
    for number in range(CROPS):
        image = load_image(photos[number % len(photos)])
        length = int(min(image.size) * rng.uniform(0.5, 1))
        left, top = (int(rng.integers(0, size - length + 1)) for size in image.size)
        yield to_bytes(resize_square(image.crop((left, top, left + length, top + length)), side))


class _Writer:
    """Collects the nodes and constants of the new graph.

    Args:
        ranges: Range of each tensor that is rounded.
    """

    def __init__(self, ranges: dict[str, Range]) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._ranges = ranges
        self._rounded: dict[str, str] = {}
        self._known: set[str] = set()

    def rounded(self, name: str) -> str:
        """Return the name of a tensor rounded to bytes and back; ONNX Runtime fuses both with the convolutions."""
        if name not in self._rounded:
            scale, zero = self._scale(name), f"{name}_zero"
            low, high = self._ranges[name]
            self._constant(zero, np.uint8(np.rint(-low / max((high - low) / 255, _TINY))))
            values = self._add("QuantizeLinear", name, scale, zero)
            self._rounded[name] = self._add("DequantizeLinear", values, scale, zero)
        return self._rounded[name]

    def convolution(self, node: Any, norm: Any | None) -> None:
        """Add a convolution of bytes with the batch norm behind it, if there is one, in its weights."""
        import onnx

        activation, weight = self.rounded(node.input[0]), node.input[1]
        bias = node.input[2] if norm is None else ""
        if norm is not None:
            gain, shift, mean, variance = norm.input[1:]
            epsilon = next(each.f for each in norm.attribute if each.name == "epsilon")
            deviation = self._add(
                "Sqrt", self._add("Add", variance, self._constant(f"{epsilon:g}", np.float32(epsilon)))
            )
            gain = self._add("Div", gain, deviation)
            column = self._constant("column", np.array([-1, 1, 1, 1]))
            weight = self._add("Mul", weight, self._add("Reshape", gain, column))
            bias = self._add("Sub", shift, self._add("Mul", mean, gain))
        axes = self._constant("axes", np.array([1, 2, 3]))
        greatest = self._add("ReduceMax", self._add("Abs", weight), axes, keepdims=0)
        levels, tiny = self._constant("levels", np.float32(LEVELS)), self._constant("tiny", np.float32(_TINY))
        scale = self._add("Max", self._add("Div", greatest, levels), tiny)
        zero = self._add("Cast", self._add("Sub", scale, scale), to=onnx.TensorProto.INT8)
        values = self._add("QuantizeLinear", weight, scale, zero, axis=0)
        step = self._add("Mul", scale, self._scale(node.input[0]))
        whole = self._add("Cast", self._add("Round", self._add("Div", bias, step)), to=onnx.TensorProto.INT32)
        inputs = [
            activation,
            self._add("DequantizeLinear", values, scale, zero, axis=0),
            self._add("DequantizeLinear", whole, step, axis=0),
        ]
        replaced = onnx.helper.make_node("Conv", inputs, [(norm or node).output[0]])
        replaced.attribute.extend(node.attribute)
        self.nodes.append(replaced)

    def _scale(self, name: str) -> str:
        low, high = self._ranges[name]
        return self._constant(f"{name}_scale", np.float32(max((high - low) / 255, _TINY)))

    def _constant(self, name: str, value: np.ndarray | np.generic) -> str:
        from onnx import numpy_helper

        if name not in self._known:
            self._known.add(name)
            self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        import onnx

        output = f"int8_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output
