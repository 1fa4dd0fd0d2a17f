import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.errors import BackendError, InputError, MissingExtraError
from mambamatcher.matching.confidence import Calibration
from mambamatcher.matching.pair_export import export_pair
from mambamatcher.model.config import override
from tests.matching.conftest import picture

POINTS = np.array([(10.0, 20.0), (45.5, 30.0), (90.0, 60.0), (0.0, 0.0)])
CALIBRATION = Calibration(bias=-1.0, peak=0.4, entropy=-2.0, agreement=1.5, energy=0.3, height=-0.2, border=0.7)


def tiny(*changes: str) -> MambaMatcher:
    torch.manual_seed(0)
    return MambaMatcher(override(presets.tiny(), ["correlation=linear", *changes])).eval()


@pytest.mark.parametrize("changes", [[], ["mirror=true", "transfer.blend=scores", "transfer.scores=shifted"]])
def test_a_program_without_this_package_finds_what_a_matcher_finds(tmp_path, changes):
    model = tiny(*changes)
    export_pair(model, CALIBRATION, tmp_path / "pair.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "pair.onnx", providers=["CPUExecutionProvider"])
    said = session.get_modelmeta().custom_metadata_map
    side = int(said["side"])

    def read(image: Image.Image) -> np.ndarray:
        return np.asarray(image.resize((side, side), 2, reducing_gap=3.0)).transpose(2, 0, 1)

    source, target = picture(90, 60), picture(120, 80, seed=1)
    for count in (1, 4):
        units = (2 * POINTS[:count] / source.size - 1).astype(np.float32)
        found, confidence = session.run(None, {"source": read(source), "target": read(target), "points": units})
        expected = Matcher(model, calibration=CALIBRATION).match(source, target, POINTS[:count])
        np.testing.assert_allclose((found + 1) * target.size / 2, expected.points, atol=2e-2)
        np.testing.assert_allclose(confidence, expected.confidence, atol=1e-3)
    assert json.loads(said["calibration"])["peak"] == 0.4
    assert onnx.load(tmp_path / "pair.onnx").opset_import[0].version == int(said["opset"])


def test_a_model_with_a_scan_is_refused(tmp_path):
    with pytest.raises(BackendError, match="linear correlation head"):
        export_pair(MambaMatcher(presets.tiny()), Calibration(), tmp_path / "pair.onnx")


def test_nothing_is_overwritten_unasked_and_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "pair.onnx").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        export_pair(tiny(), Calibration(), tmp_path / "pair.onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"mambamatcher\[export\]"):
        export_pair(tiny(), Calibration(), tmp_path / "other.onnx")
