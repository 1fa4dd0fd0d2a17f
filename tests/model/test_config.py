import json
from dataclasses import replace

import pytest

from mambamatcher import presets
from mambamatcher.errors import ConfigError
from mambamatcher.model.backbones import ResNetConfig
from mambamatcher.model.config import from_dict, override, to_dict
from mambamatcher.model.features import AttentionAggregation, NoAggregation
from mambamatcher.model.mambamatcher import ModelConfig
from mambamatcher.registry import Registry


@pytest.mark.parametrize("name", presets.PRESETS)
def test_every_preset_survives_json(name):
    config = presets.PRESETS[name]()
    assert from_dict(ModelConfig, json.loads(json.dumps(to_dict(config)))) == config


def test_overrides_reach_nested_keys_with_their_types():
    config = override(
        presets.paper(),
        [
            "side=238",
            "features.kernel_size=5",
            'correlation.orders=["raster", "reverse_raster"]',
            "correlation.mamba.state=8",
            "correlation.norm=true",
            "backbone.layers=[10, 11]",
            "backbone.weights=random",
            "transfer.sigma=1",
        ],
    )
    assert config.side == 238
    assert config.features.kernel_size == 5
    assert config.correlation.orders == ("raster", "reverse_raster")
    assert config.correlation.mamba.state == 8
    assert config.correlation.mamba.expand == 3
    assert config.correlation.norm is True
    assert config.backbone.layers == (10, 11)
    assert config.backbone.weights == "random"
    assert isinstance(config.transfer.sigma, float)


@pytest.mark.parametrize("word", ["none", "None"])
def test_none_is_the_name_none_where_there_is_one_and_a_missing_value_elsewhere(word):
    positions = override(presets.paper(), ["correlation.positional=sinusoidal"])
    config = override(positions, [f"correlation.positional={word}", f"features={word}", f"backbone.width={word}"])
    assert config.correlation.positional == "none"
    assert config.features == NoAggregation()
    assert config.backbone.width is None
    with pytest.raises(ConfigError, match="side must be of type int, got 'none'"):
        override(positions, [f"side={word}"])


@pytest.mark.parametrize("assignment", ["features=attention", "features.kind=attention"])
def test_another_kind_starts_from_its_own_defaults(assignment):
    config = override(presets.paper(), [assignment, "features.cross=true", "backbone=resnet"])
    assert config.features == AttentionAggregation(cross=True)
    assert config.backbone == ResNetConfig()


def test_an_override_changes_nothing_else():
    assert override(presets.paper(), ["side=560"]) == replace(presets.paper(), side=560)
    assert override(presets.paper(), []) == presets.paper()


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("sied=420", "Did you mean 'side'"),
        ("features.kernel_sise=5", "Did you mean 'features.kernel_size'"),
        ("fetures.kernel_size=5", "Did you mean 'features'"),
        ("features=convv", "Did you mean 'conv'"),
        ('correlation.orders=["decending"]', "Did you mean 'descending'"),
        ("transfer.scores=shfted", "Did you mean 'shifted'"),
        ("side=big", "side must be of type int, got 'big'"),
        ("side=true", "side must be of type int"),
        ("side=0", "side must be from 1 to 4,096, got 0"),
        ("features.residual=1", "must be of type bool"),
        ("backbone.layers=11", "must be a list"),
        ('backbone.layers=["a"]', r"backbone.layers\[0\] must be of type int"),
        ("side.more=1", "holds a value"),
        ("features={}", "needs a key 'kind'"),
        ("correlation.mamba=3", "must be a table"),
        ("side", "expected key=value"),
    ],
)
def test_wrong_assignments_say_what_was_meant(assignment, says):
    with pytest.raises(ConfigError, match=says):
        override(presets.paper(), [assignment])


def test_a_missing_key_is_named():
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Needy:
        size: int

    with pytest.raises(ConfigError, match="size is missing"):
        from_dict(Needy, {})


def test_a_name_cannot_be_registered_twice():
    registry: Registry[int] = Registry("number")
    registry.register("one")(1)
    with pytest.raises(ConfigError, match="registered twice"):
        registry.register("one")(2)
    assert dict(registry) == {"one": 1}
    with pytest.raises(ConfigError, match=r"unknown number 'eleven'\. Known: one\."):
        registry["eleven"]
