"""The shipped models give with ONNX Runtime what they give with PyTorch, and nothing but their own graphs is run."""

import json
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import load_file, save_file

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.errors import BackendError, ConfigError, InputError, WeightsError
from mambamatcher.matching.loading import load_runtime
from mambamatcher.matching.onnx_check import read_outline
from mambamatcher.matching.onnx_runtime import OnnxRuntime, default_threads
from mambamatcher.matching.torch_runtime import TorchRuntime
from mambamatcher.model.checkpoint import load_pretrained, save_pretrained
from mambamatcher.model.config import override
from mambamatcher.model.onnx_export import encoder_graph
from mambamatcher.model.saved import CONFIG, GRAPH, SHIPPED, WEIGHTS

PAIRS = 3
SAMPLE = Path(__file__).parents[2] / "mambamatcher" / "assets" / "sample"


@cache
def matcher(model: str, runtime: str) -> Matcher:
    return Matcher.from_pretrained(model, runtime=runtime)


@pytest.mark.parametrize("model", SHIPPED)
def test_both_runtimes_find_the_same_points_with_the_same_confidence(model):
    for pair in read_pairs("synthetic", "test").pairs[:PAIRS]:
        images = pair.source.rendered, pair.target.rendered
        with_torch, with_onnx = (
            matcher(model, runtime).match(*images, pair.points()[0], top_k=2) for runtime in ("torch", "onnx")
        )
        np.testing.assert_allclose(with_onnx.points, with_torch.points, atol=1e-3)
        np.testing.assert_allclose(with_onnx.confidence, with_torch.confidence, atol=1e-3)
        np.testing.assert_allclose(with_onnx.heatmaps, with_torch.heatmaps, atol=1e-4)
        np.testing.assert_allclose(with_onnx.modes.points, with_torch.modes.points, atol=1e-2)


def test_the_shipped_models_run_by_onnx_unless_asked_otherwise():
    assert isinstance(Matcher.from_pretrained("lite").runtime, OnnxRuntime)
    assert isinstance(matcher("lite", "torch").runtime, TorchRuntime)
    assert matcher("lite", "onnx").runtime.weights_hash() == matcher("lite", "torch").runtime.weights_hash()
    assert matcher("lite", "onnx").config == matcher("lite", "torch").config
    with pytest.raises(TypeError, match="runtime='torch'"):
        _ = matcher("lite", "onnx").model


def test_rows_are_those_of_the_whole_map_and_the_map_is_that_of_pytorch():
    with_onnx, with_torch = (matcher("lite", name).runtime for name in ("onnx", "torch"))
    rng = np.random.default_rng(0)
    source, target = (rng.standard_normal((11, 128, *grid), dtype=np.float32) for grid in ((3, 4), (5, 6)))
    source[:, :, 0, 0] = 0  # a position without features
    whole = with_onnx.correlate(source, target)
    np.testing.assert_allclose(whole, with_torch.correlate(source, target), atol=1e-5)
    weights = rng.random((7, 12)) * (rng.random((7, 12)) < 0.4)
    expected = np.einsum("ks,sij->kij", weights, whole.reshape(12, 5, 6))
    np.testing.assert_allclose(with_onnx.correlate_at(source, target, weights), expected, atol=1e-5)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A saved model with a linear head and its graph."""
    folder = tmp_path_factory.mktemp("tiny")
    model = MambaMatcher(override(presets.tiny(), ["correlation=linear"])).eval()
    save_pretrained(model, folder)
    (folder / GRAPH).write_bytes(encoder_graph(model))
    return folder


def pixels(side: int = 84) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, side, side), dtype=np.uint8)


def test_any_exported_model_gives_the_features_of_pytorch_and_can_be_pickled(tiny):
    expected = Matcher.from_pretrained(tiny, runtime="torch").runtime.encode(pixels())
    runtime = OnnxRuntime(tiny, threads=1)
    for each in (runtime, pickle.loads(pickle.dumps(runtime))):
        np.testing.assert_allclose(each.encode(pixels()), expected, atol=1e-4 * np.abs(expected).max())


def test_for_many_images_threads_encode_different_ones(tiny):
    runtime = OnnxRuntime(tiny, threads=3)
    many = runtime.for_many()
    assert (many.at_once, many.for_many()) == (3, many)
    images = [pixels() + np.uint8(number) for number in range(6)]
    with ThreadPoolExecutor(many.at_once) as pool:
        for found, image in zip(pool.map(many.encode, images), images, strict=True):
            np.testing.assert_allclose(found, runtime.encode(image), atol=1e-6 * np.abs(found).max())
    single = OnnxRuntime(tiny, threads=1)
    assert single.for_many() is single
    assert OnnxRuntime(tiny, threads=20).for_many().at_once == 8  # each has its activations in memory


def test_a_folder_without_a_graph_is_exported_once(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(tiny, tmp_path / "model")
    (tmp_path / "model" / GRAPH).unlink()
    assert isinstance(Matcher.from_pretrained(tmp_path / "model").runtime, TorchRuntime)
    first = Matcher.from_pretrained(tmp_path / "model", runtime="onnx").runtime.encode(pixels())
    monkeypatch.setattr("mambamatcher.model.onnx_export.encoder_graph", lambda _: pytest.fail("exported again"))
    again = Matcher.from_pretrained(tmp_path / "model", runtime="onnx").runtime.encode(pixels())
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["correlation=conv4d"], "'conv4d'"),
        (["correlation=linear", "features=attention"], "'attention'"),
        (["correlation.depth=2"], "depth=2"),
        (['correlation.orders=["raster"]'], r"orders=\['raster'\]"),
        (['correlation.orders=["ascending", "descending"]'], r"orders=\['ascending', 'descending'\]"),
        (["correlation.positional=sinusoidal"], "positional='sinusoidal'"),
    ],
)
def test_a_head_that_numpy_does_not_have_is_refused(tmp_path, overrides, said):
    save_pretrained(MambaMatcher(override(presets.tiny(), overrides)), tmp_path)
    with pytest.raises(BackendError, match=f"{said}; use the runtime torch"):
        OnnxRuntime(tmp_path, b"")


def test_what_onnx_cannot_run_is_one_sentence(tiny):
    with pytest.raises(InputError, match="not on 'cuda'"):
        Matcher.from_pretrained(tiny, runtime="onnx", device="cuda")
    with pytest.raises(ConfigError, match=r"unknown runtime 'onx'\. Did you mean 'onnx'"):
        load_runtime(tiny, "onx")
    with pytest.raises(InputError, match="threads must be at least 1"):
        Matcher.from_pretrained(tiny, threads=0)


def test_threads_are_the_cores_of_the_process_unless_limited(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    for given, expected in (("", 3), ("2", 2), ("8", 3), ("0", 3), ("many", 3)):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert default_threads() == expected


def test_a_match_needs_no_pytorch():
    blocked = ("torch", "scipy", "numba", "transformers", "einops", "onnx", "onnxscript", "matplotlib")
    script = f"""
import sys
sys.modules.update(dict.fromkeys({blocked!r}))
from mambamatcher import Matcher, MatchResult
matcher = Matcher.from_pretrained("lite")
result = matcher.match({str(SAMPLE / "source.png")!r}, {str(SAMPLE / "target.png")!r}, [(100, 100)], top_k=3)
assert isinstance(result, MatchResult) and result.points.shape == (1, 2)
matcher.suggest_points({str(SAMPLE / "source.png")!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_needs_pytorch_is_one_sentence_without_it(tmp_path):
    folder = changed(SHIPPED["lite"], tmp_path / "model", lambda folder: (folder / GRAPH).unlink())
    script = f"""
import sys
sys.modules["torch"] = None
import mambamatcher
from mambamatcher.cli.match import load_matcher
for attempt in (
    lambda: mambamatcher.presets,
    lambda: mambamatcher.Matcher.from_preset("nearest"),
    lambda: mambamatcher.Matcher.from_pretrained("lite", runtime="torch"),
    lambda: mambamatcher.Matcher.from_pretrained({str(folder)!r}),
    lambda: mambamatcher.Matcher.from_pretrained({str(folder)!r}, runtime="onnx"),
    lambda: load_matcher("nearest"),
):
    try:
        attempt()
    except mambamatcher.MambaMatcherError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6
    assert all("mambamatcher[torch]" in line for line in done.stdout.splitlines())


def changed(tiny: Path, folder: Path, change) -> Path:
    shutil.copytree(tiny, folder)
    change(folder)
    return folder


def change_weight(key, value):
    def change(folder):
        weights = load_file(folder / WEIGHTS)
        weights[key] = value(weights[key])
        save_file(weights, folder / WEIGHTS)

    return change


def change_config(key, value):
    def change(folder):
        config = json.loads((folder / CONFIG).read_text())
        config["model"][key] = value
        (folder / CONFIG).write_text(json.dumps(config))

    return change


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (change_weight("backbone.network.embeddings.cls_token", lambda x: x * np.nan), WeightsError, "not finite"),
        (change_weight("backbone.network.embeddings.cls_token", lambda x: x.astype(np.int32)), WeightsError, "I32"),
        (change_weight("backbone.network.embeddings.cls_token", lambda x: x[..., :3]), WeightsError, "another model"),
        (change_weight("correlation.project.weight", lambda x: x[:, :0]), WeightsError, "another model"),
        (change_config("side", 98), WeightsError, "another model"),
        (change_config("mirror", True), WeightsError, "another model"),
        (change_config("transfer", {"sigma": -1}), ConfigError, "sigma"),
        (change_config("side", "wide"), ConfigError, "side"),
        (change_config("correlation", {}), ConfigError, "kind"),
        (lambda folder: (folder / GRAPH).write_bytes(b""), WeightsError, "not a graph"),
        (lambda folder: (folder / GRAPH).write_bytes(b"\xff" * 100), WeightsError, "damaged"),
        (lambda folder: (folder / GRAPH).write_bytes((folder / GRAPH).read_bytes()[:-50]), WeightsError, "damaged"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b"{}"), WeightsError, "cannot read"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(tiny, tmp_path, change, error, said):
    with pytest.raises(error, match=said):
        OnnxRuntime(changed(tiny, tmp_path / "model", change))


def test_no_cut_and_no_flipped_bit_of_a_graph_gives_anything_but_a_sentence(tiny):
    content, rng = (tiny / GRAPH).read_bytes(), np.random.default_rng(0)
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
        (folder / GRAPH).write_bytes(model.SerializeToString())

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
    ],
)
def test_a_foreign_graph_is_refused_before_onnx_runtime_sees_it(tiny, tmp_path, monkeypatch, attack):
    folder = changed(tiny, tmp_path / "model", with_model(attack))
    (folder / "secret").write_bytes(bytes(16))
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *_, **__: pytest.fail("it was run"))
    with pytest.raises(WeightsError, match=r"is not a graph written by mambamatcher|takes"):
        OnnxRuntime(folder)


@pytest.mark.parametrize("model", SHIPPED)
def test_shipped_graphs_hold_no_weights(model):
    content = (SHIPPED[model] / GRAPH).read_bytes()
    assert len(content) < 500_000
    outline = read_outline(content, model)
    assert len(outline.weights) > 100
    assert outline.weights.keys() <= load_file(SHIPPED[model] / WEIGHTS).keys()


@pytest.mark.parametrize("model", SHIPPED)
def test_a_fresh_graph_gives_what_the_shipped_one_gives(model):
    fresh = OnnxRuntime(SHIPPED[model], encoder_graph(load_pretrained(SHIPPED[model])))
    shipped = matcher(model, "onnx").runtime
    image = pixels(shipped.side)
    np.testing.assert_allclose(fresh.encode(image), shipped.encode(image), atol=1e-5)
