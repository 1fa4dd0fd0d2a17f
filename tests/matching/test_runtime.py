import pickle

import numpy as np
import torch
from PIL import Image

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.io.points import make_points
from mambamatcher.jobs.source import read_source
from mambamatcher.matching.runtime import Runtime
from mambamatcher.matching.torch_runtime import TorchRuntime
from mambamatcher.model.config import to_dict
from mambamatcher.tools.features import extract_features
from mambamatcher.tools.propagate import Reference, propagate


def test_the_version_changes_with_every_change_of_a_parameter_or_buffer_and_the_hash_with_values():
    runtime = TorchRuntime(MambaMatcher(presets.tiny()))
    weight = runtime.model.correlation.project.weight
    versions, names = [runtime.version], [runtime.weights_hash()]
    assert runtime.version == versions[0]
    with torch.no_grad():
        weight.add_(1)
    versions.append(runtime.version)
    names.append(runtime.weights_hash())
    runtime.model.backbone.mean.zero_()
    versions.append(runtime.version)
    weight.data = weight.detach().clone()
    versions.append(runtime.version)
    assert len(set(versions)) == 4
    assert names[0] != names[1] == runtime.weights_hash()


class HalfGrey:
    """A runtime without a network: one feature per position, its red value."""

    config = to_dict(presets.tiny())
    side = 84
    transfer = presets.tiny().transfer
    linear = False
    at_once = 1
    version = 0

    def for_many(self):
        return self

    def weights_hash(self):
        return "half-grey"

    def moved(self, device):
        return self

    def encode(self, pixels):
        return (pixels[0] / np.float32(255)).reshape(6, 14, 6, 14).mean(axis=(1, 3))[None, None]

    def correlate(self, source, target):
        return -np.abs(source[0, 0, :, :, None, None] - target[0, 0])

    def correlate_at(self, source, target, weights):
        raise AssertionError("not asked of a runtime that is not linear")

    def check_memory(self):
        pass


RAMP = np.broadcast_to(np.linspace(0, 255, 84).astype(np.uint8)[None, :, None], (84, 84, 3))


def test_any_runtime_can_stand_behind_a_matcher():
    assert isinstance(HalfGrey(), Runtime)
    result = Matcher(HalfGrey()).match(RAMP, RAMP[:, ::-1].copy(), [(7, 42)])
    assert abs(result.points[0, 0] - 77) < 14


def test_any_runtime_can_propagate_predict_and_extract_features(tmp_path):
    (tmp_path / "targets").mkdir()
    Image.fromarray(RAMP[:, ::-1].copy()).save(tmp_path / "targets" / "ramp.png")
    targets = read_source(tmp_path / "targets")
    matcher = Matcher(HalfGrey())
    reference = Reference(matcher.read(Image.fromarray(RAMP)), make_points([(7, 42)], ["edge"]))
    assert propagate(matcher, [reference], targets, tmp_path / "points").targets == 1
    assert extract_features(matcher, targets, tmp_path / "features").images == 1
    copied = pickle.loads(pickle.dumps(MatcherPredictor("ramp", matcher)))
    assert copied.configuration["weights_hash"] == "half-grey"
    points, _ = copied.predict_points(*(Image.fromarray(each) for each in (RAMP, RAMP[:, ::-1])), np.array([[7, 42]]))
    assert abs(points[0, 0] - 77) < 14


def test_a_copy_in_another_process_keeps_the_low_memory_setting():
    runtime = TorchRuntime(MambaMatcher(presets.tiny()), low_memory=True)
    copied = pickle.loads(pickle.dumps(runtime)).moved(None)
    assert copied.weights_hash() == runtime.weights_hash()
    assert not copied.model.features.keep_transformed
