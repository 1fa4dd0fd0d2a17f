"""The Mamba model of transformers, with our scan in place of its own."""

import pytest
import torch
from transformers import MambaConfig, MambaModel
from transformers.models.mamba import modeling_mamba

from mambamatcher.ops import selective_scan


def ours(*args, use_mambapy: bool = False, use_associative_scan: bool = False, **options):
    return selective_scan(*args, **options)


@pytest.fixture
def model() -> MambaModel:
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=50, hidden_size=24, state_size=8, num_hidden_layers=3, use_mambapy=False)
    return MambaModel(config)


def run(model: MambaModel, tokens: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    hidden = model(tokens, use_cache=False).last_hidden_state
    (hidden * torch.linspace(-1, 2, hidden.numel()).reshape(hidden.shape).cos()).sum().backward()
    return hidden.detach(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("training", [False, True])
def test_hidden_states_and_gradients_stay_the_same(model, monkeypatch, training):
    tokens = torch.randint(0, 50, (2, 90))
    model.train(training)
    hidden, gradients = run(model, tokens)
    calls = []
    monkeypatch.setattr(modeling_mamba, "mamba_selective_scan", lambda *a, **k: calls.append(1) or ours(*a, **k))
    swapped_hidden, swapped_gradients = run(model, tokens)
    assert len(calls) == 3
    torch.testing.assert_close(swapped_hidden, hidden, rtol=1e-4, atol=1e-5)
    for name, gradient in gradients.items():
        assert (swapped_gradients[name] - gradient).abs().max() <= 2e-5 * gradient.abs().max(), name


def test_generation_continues_from_our_last_state(model, monkeypatch):
    tokens = torch.randint(0, 50, (1, 20))
    whole = model.eval()(tokens).last_hidden_state[:, -1]
    monkeypatch.setattr(modeling_mamba, "mamba_selective_scan", ours)
    begun = model(tokens[:, :-1], use_cache=True)
    continued = model(tokens[:, -1:], cache_params=begun.cache_params, use_cache=True)
    torch.testing.assert_close(continued.last_hidden_state[:, -1], whole, rtol=1e-4, atol=1e-5)
