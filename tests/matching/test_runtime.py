import torch

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.matching.runtime import Runtime, TorchRuntime


def test_the_version_changes_with_every_change_of_a_parameter_or_buffer_and_the_fingerprint_with_values():
    runtime = TorchRuntime(MambaMatcher(presets.tiny()))
    weight = runtime.model.correlation.project.weight
    versions, names = [runtime.version], [runtime.fingerprint()]
    assert runtime.version == versions[0]
    with torch.no_grad():
        weight.add_(1)
    versions.append(runtime.version)
    names.append(runtime.fingerprint())
    runtime.model.backbone.mean.zero_()
    versions.append(runtime.version)
    weight.data = weight.detach().clone()
    versions.append(runtime.version)
    assert len(set(versions)) == 4
    assert names[0] != names[1] == runtime.fingerprint()


class HalfGrey:
    """A runtime without a network: one feature per position, its red value."""

    config = presets.tiny()
    version = 0

    def fingerprint(self):
        return "half-grey"

    def encode(self, pixels):
        return torch.nn.functional.avg_pool2d(pixels[None, :1].float() / 255, 14)[:, None]

    def correlate(self, source, target):
        return -(source[:, 0, 0, :, :, None, None] - target[:, 0, 0, None, None]).abs()

    def check_memory(self):
        pass


def test_any_runtime_can_stand_behind_a_matcher():
    ramp = torch.linspace(0, 255, 84).byte().expand(3, 84, 84).permute(1, 2, 0).numpy()
    assert isinstance(HalfGrey(), Runtime)
    result = Matcher(HalfGrey()).match(ramp, ramp[:, ::-1].copy(), [(7, 42)])
    assert abs(result.points[0, 0] - 77) < 14
