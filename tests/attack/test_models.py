"""Models made to exhaust or mislead: refused while they are loaded, before anything large is allocated."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from mambamatcher import MambaMatcher, Matcher, presets
from mambamatcher.errors import ConfigError, MambaMatcherError, MemoryLimitError, WeightsError
from mambamatcher.io.atomic import SETTINGS_BYTES
from mambamatcher.matching import memory_guard
from mambamatcher.matching.confidence import load_calibration
from mambamatcher.model.backbones import ResNetConfig, VitConfig
from mambamatcher.model.backbones.resnet import DEPTHS
from mambamatcher.model.checkpoint import load_pretrained, save_pretrained
from mambamatcher.model.config import override
from mambamatcher.model.presets import PRESETS
from mambamatcher.model.saved import SHIPPED
from tests.helpers import noise_file, run_cli

TINY = VitConfig(name="dinov2-tiny", layers=(1, 3), weights="random")


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    save_pretrained(MambaMatcher(presets.tiny()), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    "assignment",
    [
        "side=1000000",
        "correlation.depth=1000000",
        "correlation.depth=1000000000000000",
        "correlation.mamba.state=1000000",
        "correlation.mamba.conv=1000000",
        "correlation.mamba.expand=1000000",
        "correlation.mamba.rank=1000000",
        "features.kernel_size=1000001",
        "features.hidden_ratio=1000000",
        "backbone.width=1000000",
        "backbone.trainable_blocks=1000000",
    ],
)
def test_giant_numbers_are_refused_by_the_key(assignment):
    key, _, value = assignment.partition("=")
    with pytest.raises(
        ConfigError, match=f"{key.removeprefix('correlation.mamba.')} must be from .* got {int(value):,}"
    ):
        override(presets.tiny(), [assignment])


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("correlation=similarity_scan", "correlation.orders", ["raster"] * 10**6),
        ("correlation=conv4d", "correlation.hidden", [1] * 10**6),
        ("features=mamba2d", "features.orders", ["raster"] * 10**6),
        ("backbone=vit", "backbone.layers", [0] * 10**6),
        ("backbone=vit", "backbone.facets", ["token"] * 10**6),
    ],
)
def test_giant_lists_are_refused_by_the_key(kind, key, value):
    for entries in (value, value[:200]):
        with pytest.raises(ConfigError, match=f"{key} may have up to .* entries, got {len(entries):,}"):
            override(presets.tiny(), [kind, f"{key}={json.dumps(entries)}"])


@pytest.mark.parametrize("assignment", ["depth=1000000", "heads=1000000", "head_width=1000000"])
def test_giant_transformers_are_refused(assignment):
    with pytest.raises(ConfigError, match="must be from 1 to"):
        override(presets.transformatcher(), [f"correlation.{assignment}"])


def test_the_bounds_leave_room_for_every_preset_at_twice_its_size():
    for preset in PRESETS.values():
        config = preset()
        assert override(config, [f"side={2 * config.side}"]).side == 2 * config.side


def test_a_giant_depth_in_a_file_is_one_sentence(folder, monkeypatch, capsys):
    content = json.loads((folder / "config.json").read_text())
    content["model"]["correlation"]["depth"] = 10**15
    (folder / "config.json").write_text(json.dumps(content))
    code, _, said = run_cli(monkeypatch, capsys, "export", "--model", folder, "--folder", folder.parent / "out")
    assert code == 2
    assert "correlation.depth must be from 1 to 64" in said
    with pytest.raises(ConfigError, match=r"correlation\.depth"):
        load_pretrained(folder)


def test_an_image_that_would_not_fit_is_refused_before_it_is_encoded(folder, monkeypatch):
    matcher = Matcher.from_pretrained(folder)
    monkeypatch.setattr(memory_guard, "available_bytes", lambda: 10**6)
    monkeypatch.setattr(MambaMatcher, "encode", lambda *_: pytest.fail("encoded"))
    with pytest.raises(MemoryLimitError, match="an image at 84 pixels needs"):
        matcher.suggest_points(noise_file())


@pytest.mark.parametrize(("name", "load"), [("config.json", load_pretrained), ("calibration.json", load_calibration)])
def test_a_giant_file_of_settings_is_not_read(name, load, folder):
    with (folder / name).open("wb") as file:
        file.truncate(3 << 30)  # takes no room on the disk
    with pytest.raises(ConfigError, match=f"{name}: it has more than the {SETTINGS_BYTES:,} bytes"):
        load(folder)


def test_a_key_that_appears_twice_in_a_configuration_is_refused(folder):
    text = (folder / "config.json").read_text().replace('"side": 84,', '"side": 84, "side": 98,')
    (folder / "config.json").write_text(text)
    with pytest.raises(ConfigError, match="the key 'side' appears more than once"):
        load_pretrained(folder)


def changed(folder, change) -> None:
    """Change one weight of a saved model."""
    state = load_file(folder / "model.safetensors")
    key = "correlation.project.weight"
    state[key] = change(state[key])
    save_file(state, folder / "model.safetensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(value, folder, monkeypatch, capsys, tmp_path):
    changed(folder, lambda weight: weight.fill_(value))
    with pytest.raises(WeightsError, match=r"'correlation\.project\.weight' holds values that are not finite"):
        load_pretrained(folder)
    (tmp_path / "a.png").write_bytes(noise_file())
    pair = tmp_path / "a.png", tmp_path / "a.png"
    code, said, error = run_cli(monkeypatch, capsys, "match", *pair, "--points", "5,5", "--model", folder, "--json")
    assert (code, said) == (2, "")
    assert "not finite" in error


def test_a_weight_that_overflows_in_single_precision_is_refused(folder):
    changed(folder, lambda weight: torch.full_like(weight, 1e300, dtype=torch.float64))
    with pytest.raises(WeightsError, match=r"not finite in float32"):
        load_pretrained(folder)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_weights_of_other_types_are_not_cast(dtype, folder):
    changed(folder, lambda weight: torch.ones_like(weight).to(dtype))
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(WeightsError, match=f"holds {name}, expected float32"):
        load_pretrained(folder)


def test_counts_of_batches_stay_integers(tmp_path):
    path = tmp_path / "lite"
    path.mkdir()
    (path / "config.json").write_bytes((SHIPPED["lite"] / "config.json").read_bytes())
    state = load_file(SHIPPED["lite"] / "model.safetensors")
    counter = next(key for key in state if key.endswith("num_batches_tracked"))
    state[counter] = state[counter].float()
    save_file(state, path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"holds float32, expected int64"):
        load_pretrained(path)


BACKBONE_ATTACKS = {
    "integer": lambda state: state.update({"layernorm.weight": torch.ones(48, dtype=torch.int64)}),
    "complex": lambda state: state.update({"layernorm.weight": torch.ones(48, dtype=torch.complex64)}),
    "not finite": lambda state: state["layernorm.weight"].fill_(torch.inf),
    "surplus": lambda state: state.update({"surplus.weight": torch.ones(3)}),
    "missing": lambda state: state.pop("layernorm.weight"),
}


@pytest.mark.parametrize("attack", BACKBONE_ATTACKS)
@pytest.mark.parametrize("kind", ["folder", "safetensors", "pytorch_model.bin"])
def test_weights_of_a_backbone_are_checked_as_strictly(attack, kind, tmp_path):
    TINY.build().network.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    BACKBONE_ATTACKS[attack](state)
    save_file(state, path)
    if kind == "pytorch_model.bin":
        torch.save(state, tmp_path / kind)
        path.unlink()
    with pytest.raises(WeightsError, match="surplus.weight" if attack == "surplus" else "layernorm.weight"):
        replace(TINY, weights=str(path if kind == "safetensors" else tmp_path)).build()


def test_a_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(MambaMatcherError, match=r"holds no weights; it needs a file model\.safetensors"):
        replace(TINY, weights=str(tmp_path)).build()


def test_the_classifier_of_a_residual_network_is_no_surplus(tmp_path, monkeypatch):
    monkeypatch.setitem(DEPTHS, "resnet-50", [1, 1, 1, 1])  # quicker to build
    config = ResNetConfig(name="resnet-50", layers=(0,), weights="random", width=None)
    state = {f"resnet.{key}": value for key, value in config.build().network.state_dict().items()}
    state |= {"classifier.1.weight": torch.zeros(10, 2048), "classifier.1.bias": torch.zeros(10)}
    save_file(state, tmp_path / "model.safetensors")
    assert replace(config, weights=str(tmp_path)).build().network.state_dict().keys() == {
        key.removeprefix("resnet.") for key in state if key.startswith("resnet.")
    }
