"""Products of bytes: what they compute, and how near their matches are to those of float32."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from onnx import helper

from mambamatcher import Matcher
from mambamatcher.errors import BackendError
from mambamatcher.io.images import load_image, resize_square, to_bytes
from mambamatcher.matching.onnx_runtime import OnnxRuntime, quantised
from mambamatcher.model.checkpoint import load_pretrained
from mambamatcher.model.onnx_export import encoder_graph
from mambamatcher.model.onnx_int8 import with_int8_products
from mambamatcher.model.onnx_int8_conv import float_parts, with_int8_convolutions
from mambamatcher.model.saved import GRAPH, INT8_GRAPH, SHIPPED, WEIGHTS

PHOTOS = [SHIPPED["default"].parent / "photos" / name for name in ("cat.jpg", "raccoon.jpg")]


def test_products_of_bytes_are_those_of_rounded_numbers():
    """Independent of ONNX Runtime's kernels: the product of dequantised activations and weights."""
    rng = np.random.default_rng(0)
    weight, bias = rng.standard_normal((5, 8), dtype=np.float32), rng.standard_normal(5, dtype=np.float32)
    activation = rng.standard_normal((7, 8), dtype=np.float32)
    session = products_session(weight, bias)
    low, high = min(activation.min(), 0), max(activation.max(), 0)
    step = (high - low) / 255
    zero = np.rint(-low / step)
    rounded = (np.clip(np.rint(activation / step) + zero, 0, 255) - zero) * step
    scale = np.abs(weight).max(axis=1, keepdims=True) / 64
    expected = rounded @ (np.rint(weight / scale) * scale).T + bias
    np.testing.assert_allclose(session.run(None, {"x": activation})[0], expected, atol=1e-4)


def products_session(weight: np.ndarray, bias: np.ndarray) -> ort.InferenceSession:
    tensors = [helper.make_tensor(name, 1, value.shape, value) for name, value in (("w", weight), ("b", bias))]
    tensors[0].ClearField("float_data")
    tensors[0].data_location = onnx.TensorProto.EXTERNAL
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (7, 8)), ("y", (7, 5)))]
    graph = helper.make_graph(nodes, "product", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    content = with_int8_products(model.SerializeToString(), float_products=0)
    assert {node.op_type for node in onnx.load_from_string(content).graph.node} >= {"MatMulInteger"}
    options = ort.SessionOptions()
    values, scale = quantised(weight)
    given = {"w|int8": values, "w|scale": scale}
    options.add_external_initializers(list(given), [ort.OrtValue.ortvalue_from_numpy(v) for v in given.values()])
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def test_a_graph_without_matrix_products_has_no_int8(exported):
    assert with_int8_products((SHIPPED["lite"] / GRAPH).read_bytes()) is None
    with pytest.raises(
        BackendError, match=r"has no encoder-int8\.onnx, which models with a ViT or an EfficientNet have"
    ):
        Matcher.from_pretrained(exported, runtime="int8")


def fake_quantised(values: np.ndarray, low: float, high: float) -> np.ndarray:
    step = (high - low) / 255
    zero = np.rint(-low / step)
    return (np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step


def test_convolutions_of_bytes_are_those_of_rounded_numbers(monkeypatch):
    """Independent of ONNX Runtime's kernels: convolutions of dequantised numbers in double precision."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)), "gain": rng.uniform(0.5, 2, 8), "shift": rng.standard_normal(8)}
    weights |= {"mean": rng.standard_normal(8), "variance": rng.uniform(0.5, 2, 8)}
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    image = rng.integers(0, 256, (3, 12, 12), dtype=np.uint8)
    monkeypatch.setattr("mambamatcher.model.onnx_int8_conv._crops", lambda side: [image])
    content = with_int8_convolutions(convolution_graph(weights), weights, stays=[])
    options = ort.SessionOptions()
    options.add_external_initializers(list(weights), [ort.OrtValue.ortvalue_from_numpy(v) for v in weights.values()])
    found = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"]).run(None, {"pixels": image})[0]

    double = {name: torch.from_numpy(value).double() for name, value in weights.items()}
    gain = double["gain"] / (double["variance"] + 1e-3).sqrt()
    folded, bias = double["w"] * gain[:, None, None, None], double["shift"] - double["mean"] * gain
    plain = F.conv2d(torch.from_numpy(image / 255.0)[None], folded, bias, padding=1).relu()
    scale = folded.abs().amax(dim=(1, 2, 3), keepdim=True) / 64
    rounded = torch.from_numpy(fake_quantised(image / 255.0, 0, image.max() / 255.0))[None]
    expected = F.conv2d(rounded, (folded / scale).round() * scale, bias, padding=1).relu()
    step = float(plain.max()) / 255
    np.testing.assert_allclose(found, fake_quantised(expected.numpy(), 0, float(plain.max())), atol=1.01 * step)
    assert np.abs(found - plain.numpy()).max() > step  # it is rounded


def convolution_graph(weights: dict[str, np.ndarray]) -> bytes:
    """Return an image as floats, convolved, normalised and cut off below 0."""
    tensors = [onnx.TensorProto(name=name, data_type=1, dims=value.shape) for name, value in weights.items()]
    for tensor in tensors:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=WEIGHTS)
    constants = [helper.make_tensor("first", 7, [1], [0]), helper.make_tensor("white", 1, [], [255.0])]
    nodes = [
        helper.make_node("Unsqueeze", ["pixels", "first"], ["one"]),
        helper.make_node("Cast", ["one"], ["whole"], to=1),
        helper.make_node("Div", ["whole", "white"], ["x"]),
        helper.make_node("Conv", ["x", "w"], ["convolved"], pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization", ["convolved", "gain", "shift", "mean", "variance"], ["normalised"], epsilon=1e-3
        ),
        helper.make_node("Relu", ["normalised"], ["cut"]),
        helper.make_node("Identity", ["cut"], ["features"]),
    ]
    pixels = helper.make_tensor_value_info("pixels", onnx.TensorProto.UINT8, (3, 12, 12))
    features = helper.make_tensor_value_info("features", 1, (1, 8, 12, 12))
    graph = helper.make_graph(nodes, "convolution", [pixels], [features], [*tensors, *constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10).SerializeToString()


def test_the_shipped_int8_graph_of_lite_is_that_of_the_model():
    model = load_pretrained(SHIPPED["lite"])
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    stays = float_parts(model.backbone.network.residual)
    assert stays[1:] == [f"backbone.network.blocks.{number}." for number in (0, 1, 2, 3, 4, 7, 11, 15, 20)]
    fresh = with_int8_convolutions(encoder_graph(model, as_products=False), weights, stays)
    image = to_bytes(resize_square(load_image(PHOTOS[0]), 384))
    first, second, exact = (
        OnnxRuntime(SHIPPED["lite"], graph).encode(image)
        for graph in (fresh, (SHIPPED["lite"] / INT8_GRAPH).read_bytes(), (SHIPPED["lite"] / GRAPH).read_bytes())
    )
    assert cosine(first, second).mean() > 0.9999  # ranges may differ in their last digits
    assert 0.99 < cosine(second, exact).mean() < 0.9999


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)


def test_the_shipped_int8_graph_is_that_of_the_shipped_graph():
    folder = SHIPPED["default"]
    assert with_int8_products((folder / GRAPH).read_bytes()) == (folder / INT8_GRAPH).read_bytes()


@pytest.mark.parametrize("model", SHIPPED)
def test_int8_matches_are_near_those_of_float32_and_are_not_taken_for_them(model):
    plain, quick = (Matcher.from_pretrained(model, runtime=runtime) for runtime in ("onnx", "int8"))
    assert quick.runtime.weights_hash() == plain.runtime.weights_hash() + "-int8"
    points = plain.suggest_points(PHOTOS[0], 8)
    distance = np.linalg.norm(quick.match(*PHOTOS, points).points - plain.match(*PHOTOS, points).points, axis=1)
    assert 0 < np.median(distance) < 8
