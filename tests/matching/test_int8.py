"""Products of bytes: what they compute, and how near their matches are to those of float32."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from mambamatcher import Matcher
from mambamatcher.errors import BackendError
from mambamatcher.matching.onnx_runtime import quantised
from mambamatcher.model.onnx_int8 import with_int8_products
from mambamatcher.model.saved import GRAPH, INT8_GRAPH, SHIPPED


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


def test_a_graph_without_matrix_products_has_no_int8():
    assert with_int8_products((SHIPPED["lite"] / GRAPH).read_bytes()) is None
    with pytest.raises(BackendError, match=r"has no encoder-int8\.onnx, which only models with a ViT have"):
        Matcher.from_pretrained("lite", runtime="int8")


def test_the_shipped_int8_graph_is_that_of_the_shipped_graph():
    folder = SHIPPED["default"]
    assert with_int8_products((folder / GRAPH).read_bytes()) == (folder / INT8_GRAPH).read_bytes()


def test_int8_matches_are_near_those_of_float32_and_are_not_taken_for_them():
    plain, quick = (Matcher.from_pretrained("default", runtime=runtime) for runtime in ("onnx", "int8"))
    assert quick.runtime.weights_hash() == plain.runtime.weights_hash() + "-int8"
    photos = [SHIPPED["default"].parent / "photos" / name for name in ("cat.jpg", "raccoon.jpg")]
    points = plain.suggest_points(photos[0], 8)
    distance = np.linalg.norm(quick.match(*photos, points).points - plain.match(*photos, points).points, axis=1)
    assert 0 < np.median(distance) < 8
