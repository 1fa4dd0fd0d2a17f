import pytest
import torch

from mambamatcher import presets
from mambamatcher.errors import ConfigError, WeightsError
from mambamatcher.matching.untrained import warn_untrained
from mambamatcher.model.backbones.named import NAMED_BACKBONES, named_backbone
from mambamatcher.model.config import override
from mambamatcher.model.saved import download
from tests.helpers import build_untrained


@pytest.mark.parametrize("name", NAMED_BACKBONES)
def test_nearest_runs_on_every_named_backbone_on_a_30x30_grid_with_nothing_to_train(name, recwarn):
    config = presets.PRESETS[f"nearest-{name}"]()
    assert config == presets.nearest(name)
    with torch.device("meta"):
        model = build_untrained(override(config, ["backbone.weights=random"]))
        features = model.backbone(torch.rand(1, 3, config.side, config.side))
    assert features.shape[-2:] == (30, 30)
    model.config = config
    warn_untrained(model)
    assert not recwarn.list


def test_nearest_alone_is_efficientnet_lite2():
    assert presets.nearest() == presets.nearest("efficientnet-lite2")


def test_a_transformer_matches_by_the_tokens_of_its_last_block_and_vit_s_focus_by_an_earlier_one():
    assert named_backbone("dinov2-base").taps == [(11, "token")]
    assert named_backbone("dinov2-large").taps == [(23, "token")]
    focus = named_backbone("vit-s-focus")
    assert (focus.name, focus.weights, focus.taps) == ("dinov2-small", "vit-s-focus", [(9, "token")])


def test_an_unknown_backbone_is_answered_with_the_closest():
    with pytest.raises(ConfigError, match="Did you mean 'dinov2-base'"):
        presets.nearest("dinov2-bas")


def test_weights_copied_to_the_cache_are_found_without_the_hub(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "mambamatcher" / "weights" / "facebook" / "dinov2-base"
    with pytest.raises(WeightsError, match="from the Hugging Face Hub") as caught:
        download("facebook/dinov2-base")
    assert str(folder) in str(caught.value)
    folder.mkdir(parents=True)
    assert download("facebook/dinov2-base") == folder
