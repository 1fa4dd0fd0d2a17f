import sys

import numpy as np
import pytest
import torch

from mambamatcher import MambaMatcher, presets
from mambamatcher.errors import InputError, MissingExtraError
from mambamatcher.model.config import override
from mambamatcher.model.onnx_export import export_onnx


@pytest.mark.parametrize(
    ("preset", "changes"),
    [("tiny", []), ("efficientnet", ["side=64", "mirror=true", "backbone.weights=random"])],
    ids=["vit", "efficientnet"],
)
def test_onnxruntime_gives_the_same_features(preset, changes, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    model = MambaMatcher(override(presets.PRESETS[preset](), changes)).eval()
    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for count in (1, 3):
        images = torch.rand(count, 3, model.config.side, model.config.side)
        with torch.inference_mode():
            expected = model.encode(images).numpy()
        (found,) = session.run(["features"], {"images": images.numpy()})
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_an_existing_file_is_not_overwritten_unasked(tmp_path):
    (tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        export_onnx(MambaMatcher(presets.tiny()), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "mine"


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mambamatcher\[export\]'"):
        export_onnx(MambaMatcher(presets.tiny()), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
