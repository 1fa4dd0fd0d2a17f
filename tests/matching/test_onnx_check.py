"""Only graphs that this package wrote are run: no damaged ones, and none that could read files or hide anything."""

from contextlib import suppress

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mambamatcher.errors import WeightsError
from mambamatcher.matching.onnx_check import read_outline
from mambamatcher.matching.onnx_runtime import OnnxRuntime
from mambamatcher.model.saved import GRAPH, INT8, SCALE, SHIPPED, WEIGHTS, sealed
from tests.matching.conftest import changed, pixels


def test_no_cut_and_no_flipped_bit_of_a_graph_gives_anything_but_a_sentence(exported):
    content, rng = (exported / GRAPH).read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            damaged[place] ^= 1 << int(rng.integers(8))
        with suppress(WeightsError):
            read_outline(bytes(damaged[: int(rng.integers(1, len(content) + 1))]), "it")


def with_model(change):
    def edit(folder):
        model = onnx.load(folder / GRAPH, load_external_data=False)
        change(model, folder)
        (folder / GRAPH).write_bytes(sealed(model))  # whoever attacks can name the content too

    return edit


def external(tensor, location: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("external_data")
    tensor.external_data.add(key="location", value=location)


def read_elsewhere(model, folder):
    external(model.graph.initializer[-1], str(folder / "secret"))


def read_elsewhere_unflagged(model, folder):
    read_elsewhere(model, folder)
    model.graph.initializer[-1].ClearField("data_location")


def read_two_places(model, folder):
    external(model.graph.initializer[-1], WEIGHTS)
    model.graph.initializer[-1].external_data.add(key="location", value=str(folder / "secret"))


def read_in_an_operator(model, folder):
    tensor = TensorProto(name="secret", data_type=TensorProto.FLOAT, dims=[4])
    external(tensor, str(folder / "secret"))
    model.graph.node.append(helper.make_node("Constant", [], ["secret"], value=tensor))


def read_in_a_nested_graph(model, folder):
    inner = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "inner", [], [])
    model.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner))


def use_foreign_operators(model, folder):
    model.graph.node[0].domain = "com.example"


def import_foreign_operators(model, folder):
    model.opset_import.add(domain="com.example", version=1)


def add_function(model, folder):
    model.functions.add(name="f", domain="")


def take_another_input(model, folder):
    model.graph.input[0].name = "image"


def use_an_old_opset(model, folder):
    model.opset_import[0].version = 9


def hold_sparse_values(model, folder):
    model.graph.sparse_initializer.add(dims=[4])


def hold_sparse_values_in_an_operator(model, folder):
    model.graph.node[0].attribute.add(name="sparse", type=onnx.AttributeProto.SPARSE_TENSOR).sparse_tensor.dims.append(
        4
    )


def promise_a_huge_tensor(model, folder):
    model.graph.initializer.add(name="huge", data_type=TensorProto.FLOAT, dims=[2**40], raw_data=bytes(16))


def promise_a_huge_tensor_in_an_operator(model, folder):
    huge = TensorProto(name="huge", data_type=TensorProto.FLOAT, dims=[2**20, 2**20], raw_data=bytes(16))
    model.graph.node.append(helper.make_node("Constant", [], ["huge"], value=huge))


def configure_the_session(model, folder):
    model.metadata_props.add(key="ort_config", value='{"session_options": {"enable_profiling": 1}}')


def train(model, folder):
    model.training_info.add()


def matrix_of(model):
    return next(each for each in model.graph.initializer if len(each.dims) == 2 and each.external_data)


def ask_for_scales_alone(model, folder):
    weight = matrix_of(model)
    tensor = model.graph.initializer.add(name=weight.name + SCALE, data_type=TensorProto.FLOAT, dims=weight.dims[:1])
    external(tensor, WEIGHTS)


def ask_for_scales_of_scales(model, folder):
    weight = matrix_of(model)
    for mark, kind in ((SCALE + INT8, TensorProto.INT8), (SCALE + SCALE, TensorProto.FLOAT)):
        external(model.graph.initializer.add(name=weight.name + mark, data_type=kind, dims=weight.dims), WEIGHTS)


def quantise_a_vector(model, folder):
    vector = next(each for each in model.graph.initializer if len(each.dims) == 1 and each.external_data)
    for mark, kind in ((INT8, TensorProto.INT8), (SCALE, TensorProto.FLOAT)):
        external(model.graph.initializer.add(name=vector.name + mark, data_type=kind, dims=vector.dims), WEIGHTS)


@pytest.mark.parametrize(
    "attack",
    [
        read_elsewhere,
        read_elsewhere_unflagged,
        read_two_places,
        read_in_an_operator,
        read_in_a_nested_graph,
        use_foreign_operators,
        import_foreign_operators,
        add_function,
        take_another_input,
        use_an_old_opset,
        hold_sparse_values,
        hold_sparse_values_in_an_operator,
        promise_a_huge_tensor,
        promise_a_huge_tensor_in_an_operator,
        configure_the_session,
        train,
        ask_for_scales_alone,
        ask_for_scales_of_scales,
        quantise_a_vector,
    ],
)
def test_a_foreign_graph_is_refused_before_onnx_runtime_sees_it(exported, tmp_path, monkeypatch, attack):
    folder = changed(exported, tmp_path / "model", with_model(attack))
    (folder / "secret").write_bytes(bytes(16))
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *_, **__: pytest.fail("it was run"))
    with pytest.raises(WeightsError, match=r"is not a graph written by mambamatcher|takes|asks for|another model"):
        OnnxRuntime(folder)


def long_tag(number: int, kind: int) -> bytes:
    """Return the tag of a protobuf field with a 33rd bit, which ONNX Runtime drops."""
    tag = number << 3 | kind | 1 << 32
    return bytes((tag >> 7 * place & 127) | (128 if place < 4 else 0) for place in range(5))


def test_a_field_cannot_be_hidden_by_bits_that_onnx_runtime_drops(exported):
    model = onnx.load(exported / GRAPH, load_external_data=False)
    tensor = TensorProto(name="secret", data_type=TensorProto.FLOAT, dims=[4]).SerializeToString()
    entry = onnx.StringStringEntryProto(key="location", value="secret").SerializeToString()
    tensor += long_tag(13, 2) + bytes([len(entry)]) + entry + long_tag(14, 0) + b"\1"
    graph = model.graph.SerializeToString() + bytes([5 << 3 | 2, len(tensor)]) + tensor
    model.ClearField("graph")
    del model.metadata_props[:]
    size = bytes([len(graph) & 127 | 128, len(graph) >> 7 & 127 | 128, len(graph) >> 14])
    with pytest.raises(WeightsError, match="damaged"):
        read_outline(model.SerializeToString() + bytes([7 << 3 | 2]) + size + graph, "it")


def test_a_graph_is_never_read_in_another_format_than_the_one_checked(exported):
    graph = (exported / GRAPH).read_bytes()
    text = b"?ORTM" + bytes(203)  # where ONNX Runtime's own format has its name
    disguised = bytes([6 << 3 | 2, len(text) & 127 | 128, len(text) >> 7]) + text + graph
    assert disguised[4:8] == b"ORTM"
    np.testing.assert_array_equal(
        OnnxRuntime(exported, disguised).encode(pixels()), OnnxRuntime(exported).encode(pixels())
    )


def test_every_flipped_bit_of_a_shipped_graph_is_noticed():
    content, rng = (SHIPPED["lite"] / GRAPH).read_bytes(), np.random.default_rng(0)
    graph = onnx.load_from_string(content).graph.SerializeToString()
    start = content.index(graph)
    for place in rng.integers(start, start + len(graph), 100):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(WeightsError):
            read_outline(bytes(damaged), "it")


def test_features_that_are_not_as_the_graph_says_are_refused(exported, tmp_path):
    def cut(model, folder):
        last = next(node for node in model.graph.node if "features" in node.output)
        last.output[0] = "whole"
        model.graph.initializer.add(name="kept", data_type=TensorProto.BOOL, dims=[1], raw_data=b"\1")
        model.graph.node.append(helper.make_node("Compress", ["whole", "kept"], ["features"], axis=1))

    with pytest.raises(WeightsError, match="other features than it says"):
        OnnxRuntime(changed(exported, tmp_path / "model", with_model(cut))).encode(pixels())
