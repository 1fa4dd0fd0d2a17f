"""Saved models give with ONNX Runtime what they give with PyTorch."""

import json
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
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
from tests.matching.conftest import changed, pixels

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


def test_any_exported_model_gives_the_features_of_pytorch_and_can_be_pickled(exported):
    expected = Matcher.from_pretrained(exported, runtime="torch").runtime.encode(pixels())
    runtime = OnnxRuntime(exported, threads=1)
    for each in (runtime, pickle.loads(pickle.dumps(runtime))):
        np.testing.assert_allclose(each.encode(pixels()), expected, atol=1e-4 * np.abs(expected).max())


def test_for_many_images_threads_encode_different_ones(exported):
    runtime = OnnxRuntime(exported, threads=3)
    many = runtime.for_many()  # both can be used
    assert (many.at_once, many.for_many()) == (3, many)
    images = [pixels() + np.uint8(number) for number in range(6)]
    with ThreadPoolExecutor(many.at_once) as pool:
        for found, image in zip(pool.map(many.encode, images), images, strict=True):
            np.testing.assert_allclose(found, runtime.encode(image), atol=1e-6 * np.abs(found).max())
    single = OnnxRuntime(exported, threads=1)
    assert single.for_many() is single
    assert OnnxRuntime(exported, threads=20).for_many().at_once == 8  # each has its activations in memory


def test_a_folder_without_a_graph_is_exported_once(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(exported, tmp_path / "model")
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


def test_what_onnx_cannot_run_is_one_sentence(exported):
    with pytest.raises(InputError, match="not on 'cuda'"):
        Matcher.from_pretrained(exported, runtime="onnx", device="cuda")
    with pytest.raises(ConfigError, match=r"unknown runtime 'onx'\. Did you mean 'onnx'"):
        load_runtime(exported, "onx")
    with pytest.raises(InputError, match="threads must be at least 1"):
        Matcher.from_pretrained(exported, threads=0)


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
def test_files_that_do_not_fit_together_are_refused(exported, tmp_path, change, error, said):
    with pytest.raises(error, match=said):
        OnnxRuntime(changed(exported, tmp_path / "model", change))


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
