import pytest
import torch
from torch.testing import assert_close

from mambamatcher.errors import ConfigError
from mambamatcher.model.layers.grid_scans import SnakeScan
from mambamatcher.model.layers.mamba import Mamba, MambaSettings
from tests import slow


@pytest.mark.parametrize("settings", [MambaSettings(), MambaSettings(state=3, conv=2, expand=3, rank=2)])
def test_block_equals_the_equations_step_by_step(settings):
    torch.manual_seed(0)
    block = Mamba(5, settings)
    tokens = torch.randn(2, 9, 5)
    for scanned, each in zip(block(tokens), tokens, strict=True):
        assert_close(slow.numpy(scanned), slow.mamba(block, slow.numpy(each)), rtol=1e-4, atol=1e-5)


def test_block_equals_the_one_in_transformers():
    from transformers import MambaConfig, MambaModel

    torch.manual_seed(0)
    config = MambaConfig(vocab_size=4, hidden_size=8, state_size=4, conv_kernel=3, expand=2, num_hidden_layers=1)
    theirs = MambaModel(config).layers[0].mixer
    ours = Mamba(8, MambaSettings(state=4, conv=3, expand=2, rank=config.time_step_rank))
    ours.load_state_dict(theirs.state_dict())
    tokens = torch.randn(2, 11, 8)
    assert_close(ours(tokens), theirs(tokens), rtol=1e-4, atol=1e-5)


def test_a_position_sees_nothing_that_comes_after_it():
    block = Mamba(4, MambaSettings())
    tokens = torch.randn(1, 10, 4)
    changed = tokens.clone()
    changed[:, 6:] += 1
    assert_close(block(changed)[:, :6], block(tokens)[:, :6])
    assert not torch.allclose(block(changed)[:, 6:], block(tokens)[:, 6:])


def test_zero_order_hold_is_a_different_discretisation():
    torch.manual_seed(0)
    euler, hold = Mamba(4, MambaSettings()), Mamba(4, MambaSettings(discretization="zoh"))
    hold.load_state_dict(euler.state_dict())
    tokens = torch.randn(1, 10, 4)
    assert not torch.allclose(euler(tokens), hold(tokens), rtol=1e-4)


def test_delta_starts_in_mambas_range():
    block = Mamba(64, MambaSettings())
    delta = torch.nn.functional.softplus(block.dt_proj.bias)
    assert delta.min() >= 0.999e-3
    assert delta.max() <= 1.001e-1


def test_delta_can_start_small_enough_to_remember_a_whole_map():
    block = Mamba(64, MambaSettings(delta=(1 / 65_536, 0.1)))
    delta = torch.nn.functional.softplus(block.dt_proj.bias)
    assert delta.min() < 1e-3
    assert delta.min() >= 0.999 / 65_536


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"state": -1}, "mamba.state"),
        ({"expand": 0}, "mamba.expand"),
        ({"delta": (0.1, 0.01)}, "two rising numbers"),
        ({"discretization": "eulr"}, "Did you mean 'euler'"),
    ],
)
def test_impossible_sizes_are_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        MambaSettings(**wrong)


def test_plain_mamba_starts_as_published():
    """A depthwise 7x7 convolution before the scans, and direction vectors drawn with a deviation of 0.02."""
    torch.manual_seed(0)
    scan = SnakeScan(96, axes=2, settings=MambaSettings(state=64))
    (convolution,) = scan.convolutions
    assert (convolution.kernel_size, convolution.groups, convolution.in_channels) == ((7, 7), 192, 192)
    assert scan.direction_B.shape == (5, 64)
    assert scan.direction_B.std().item() == pytest.approx(0.02, rel=0.15)
    assert not any("conv1d" in name for name in scan.state_dict())
