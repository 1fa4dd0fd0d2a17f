import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

from mambamatcher.model.features import ConvAggregation
from mambamatcher.model.features.conv import ConvAggregator


@pytest.fixture
def module():
    torch.manual_seed(0)
    return ConvAggregation().build(64).eval()


def features(h: int = 12, w: int = 7) -> torch.Tensor:
    return torch.randn(2, 3, 64, h, w, generator=torch.Generator().manual_seed(1))


def assert_same_by_winograd(module: ConvAggregator, given: torch.Tensor) -> None:
    direct = module.per_image(given)
    assert direct.requires_grad  # with gradients, the module uses direct convolution
    with torch.inference_mode():
        found = module.per_image(given)
    assert (found - direct).abs().max() <= 3e-5 * direct.abs().max()  # 1.6e-5 with AVX-512


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("final_activation", [False, True])
def test_inference_gives_what_training_gives(residual, final_activation):
    module = ConvAggregation(residual=residual, final_activation=final_activation).build(64)
    for h, w in ((12, 7), (8, 8)):
        assert_same_by_winograd(module, features(h, w))
    assert module.kept_bytes((8, 8)) == 0


def test_kept_weights_follow_the_parameters(module):
    assert_same_by_winograd(module, features())
    with torch.no_grad():
        module.widen.weight.mul_(-2.0)
    assert_same_by_winograd(module, features())
    module.load_state_dict(ConvAggregation().build(64).state_dict())
    assert_same_by_winograd(module, features())
    module.narrow.weight = torch.nn.Parameter(torch.randn_like(module.narrow.weight))
    assert_same_by_winograd(module, features())
    module.narrow.weight.data = torch.randn_like(module.narrow.weight)
    assert_same_by_winograd(module, features())


def test_parameters_that_do_not_count_their_changes_are_not_trusted():
    with torch.inference_mode():
        module = ConvAggregation().build(64)
        first = module.per_image(features())
        module.narrow.weight.zero_()
        module.narrow.bias.fill_(3.0)
        assert module._kept is None
        assert_close(module.per_image(features()), torch.full_like(first, 3.0))


def test_low_memory_gives_the_same_and_keeps_nothing(module):
    with torch.inference_mode():
        kept = module.per_image(features())
        module.keep_transformed = False
        assert_close(module.per_image(features()), kept, rtol=0, atol=0)
    assert module._kept is None


def test_the_state_and_copies_hold_only_the_parameters(module):
    names = list(module.state_dict())
    with torch.inference_mode():
        expected = module.per_image(features())
        assert list(module.state_dict()) == names == ["widen.weight", "widen.bias", "narrow.weight", "narrow.bias"]
        assert len(pickle.dumps(module)) < 1.1 * sum(4 * p.numel() for p in module.parameters()) + 10_000
        for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            assert twin._kept is None
            assert_close(twin.per_image(features()), expected, rtol=0, atol=0)


@pytest.mark.parametrize(("size", "channels"), [(3, 8), (3, 70), (1, 64), (5, 64)])
def test_sizes_that_do_not_suit_are_convolved_directly(size, channels):
    module = ConvAggregation(kernel_size=size, hidden_ratio=1).build(channels)
    assert not module.pays
    with torch.inference_mode():
        assert module.per_image(torch.randn(1, 2, channels, 5, 6)).shape == (1, 2, channels, 5, 6)


def test_mixed_and_double_precision_go_the_plain_way(module):
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert module.per_image(features()).dtype == torch.bfloat16
    with torch.inference_mode():
        assert module.double().per_image(features().double()).dtype == torch.float64
