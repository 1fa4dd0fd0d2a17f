"""Models with the paper's scan run without PyTorch: encoder by ONNX Runtime, correlation in NumPy, scan by Numba."""

import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file as save_tensors

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.errors import BackendError, WeightsError
from mambamatcher.matching.onnx_runtime import OnnxRuntime
from mambamatcher.model.checkpoint import save_pretrained
from mambamatcher.model.config import override, to_dict
from mambamatcher.model.onnx_export import encoder_graph
from mambamatcher.model.saved import GRAPH, WEIGHTS
from tests.matching.test_onnx_runtime import SAMPLE, change_config, change_weight, changed

BLOCK = "correlation.scans.0.blocks.0."


def saved(folder: Path, overrides: list[str]) -> Path:
    """Save a small model with its graph. All weights of its head are random, so that each changes the scores.

    They are small, as those of a trained head: encoders differ by 1e-6, which swaps neighbours of nearly equal
    similarity in the scan, and a head of large weights amplifies that.
    """
    torch.manual_seed(0)
    model = MambaMatcher(override(presets.tiny(), overrides)).eval()
    for parameter in model.correlation.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    save_pretrained(model, folder)
    (folder / GRAPH).write_bytes(encoder_graph(model))
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("tiny"), [])


@cache
def rendered() -> list:
    return read_pairs("synthetic", "test").pairs[:5]


def test_both_runtimes_find_the_same_points_with_the_same_confidence(tiny):
    matchers = [Matcher.from_pretrained(tiny, runtime=name) for name in ("torch", "onnx")]
    assert isinstance(matchers[1].runtime, OnnxRuntime)
    assert matchers[0].runtime.weights_hash() == matchers[1].runtime.weights_hash()
    assert not matchers[1].runtime.linear
    for pair in rendered():
        images = pair.source.rendered, pair.target.rendered
        with_torch, with_onnx = (matcher.match(*images, pair.points()[0], top_k=2) for matcher in matchers)
        np.testing.assert_allclose(with_onnx.points, with_torch.points, atol=1e-3)
        np.testing.assert_allclose(with_onnx.confidence, with_torch.confidence, atol=1e-3)


OPTIONS = [
    [],
    ["correlation.norm=true", "correlation.residual=false"],
    ["correlation.sort_key=penultimate", "correlation.mamba.discretization=zoh"],
    ["correlation.sort_key=mean", 'correlation.orders=["ascending"]', "correlation.norm=true"],
    ["correlation.mamba.state=3", "correlation.mamba.conv=2", "correlation.mamba.rank=2"],
]


@pytest.mark.parametrize("overrides", OPTIONS)
def test_every_supported_option_gives_the_map_of_pytorch(tmp_path, overrides):
    folder = saved(tmp_path / "model", overrides)
    with_torch, with_onnx = (Matcher.from_pretrained(folder, runtime=name).runtime for name in ("torch", "onnx"))
    rng = np.random.default_rng(0)
    source, target = (rng.standard_normal((4, 48, *grid), dtype=np.float32) for grid in ((3, 4), (5, 6)))
    source[:, :, 0, 0] = 0  # a position without features
    expected = with_torch.correlate(source, target)
    found = with_onnx.correlate(source, target)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    weights = rng.random((7, 12)) * (rng.random((7, 12)) < 0.4)
    blended = np.einsum("ks,sij->kij", weights, expected.reshape(12, 5, 6))
    np.testing.assert_allclose(with_onnx.correlate_at(source, target, weights), blended, atol=1e-3)


def test_scores_do_not_depend_on_the_number_of_threads(tiny):
    rng = np.random.default_rng(0)
    source, target = rng.standard_normal((2, 4, 48, 9, 8), dtype=np.float32)
    one, three = (OnnxRuntime(tiny, threads=threads).correlate(source, target) for threads in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_a_scan_keeps_its_threads_for_many_images(tiny):
    runtime = OnnxRuntime(tiny, threads=2)
    assert runtime.for_many() is runtime


def match_without(blocked: tuple[str, ...], folder: Path) -> str:
    script = f"""
import sys
sys.modules.update(dict.fromkeys({blocked!r}))
from mambamatcher import MambaMatcherError, Matcher
try:
    matcher = Matcher.from_pretrained({str(folder)!r})
    result = matcher.match({str(SAMPLE / "source.png")!r}, {str(SAMPLE / "target.png")!r}, [(100, 100), (80, 60)])
    print(result.points.tolist())
except MambaMatcherError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_match_needs_no_pytorch(tiny):
    images = SAMPLE / "source.png", SAMPLE / "target.png"
    expected = Matcher.from_pretrained(tiny, runtime="torch").match(*images, [(100, 100), (80, 60)]).points
    blocked = ("torch", "scipy", "transformers", "einops", "onnx", "onnxscript", "matplotlib")
    np.testing.assert_allclose(eval(match_without(blocked, tiny)), expected, atol=1e-3)


def test_without_numba_the_extra_is_named(tiny):
    said = match_without(("torch", "numba"), tiny)
    assert said == "numba is not installed; run: pip install 'mambamatcher[scan]'"


def test_without_numbas_compiler_there_is_a_sentence(tiny, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with pytest.raises(BackendError, match="unset NUMBA_DISABLE_JIT"):
        OnnxRuntime(tiny)


NAMES = ("in_proj.weight", "conv1d.bias", "x_proj.weight", "dt_proj.weight", "A_log", "D", "out_proj.weight")


@pytest.mark.parametrize(("name", "axis"), [*product(NAMES, (0, -1))])
def test_a_block_of_another_shape_never_reaches_the_kernels(tiny, tmp_path, monkeypatch, name, axis):
    monkeypatch.setattr("mambamatcher.matching.onnx_runtime._check_fit", lambda *_: None)  # a graph made to fit
    cut = change_weight(BLOCK + name, lambda weight: np.delete(weight, 0, axis))
    with pytest.raises(WeightsError, match="no correlation head for 4 levels"):
        OnnxRuntime(changed(tiny, tmp_path / "model", cut))


def test_a_missing_norm_is_refused(tiny, tmp_path):
    settings = MambaMatcher(override(presets.tiny(), ["correlation.norm=true"])).config.correlation
    change = change_config("correlation", {"kind": "similarity_scan"} | to_dict(settings))
    with pytest.raises(WeightsError, match="no correlation head for 4 levels"):
        OnnxRuntime(changed(tiny, tmp_path / "model", change))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_other_precisions_are_read_as_pytorch_reads_them(tiny, tmp_path, dtype):
    folder = changed(tiny, tmp_path / "model", lambda _: None)
    save_tensors({key: value.to(dtype) for key, value in load_tensors(folder / WEIGHTS).items()}, folder / WEIGHTS)
    with_torch, with_onnx = (Matcher.from_pretrained(folder, runtime=name).runtime for name in ("torch", "onnx"))
    assert with_onnx.weights_hash() == with_torch.weights_hash()
