"""Backbones by name, each with the levels that suit matching without any training."""

from mambamatcher.model.backbones.efficientnet_lite import EfficientNetLiteConfig
from mambamatcher.model.backbones.facets import BackboneConfig
from mambamatcher.model.backbones.focus import FOCUS
from mambamatcher.model.backbones.resnet import DEPTHS, ResNetConfig
from mambamatcher.model.backbones.vit import ARCHITECTURES, VitConfig
from mambamatcher.registry import unknown


def _vit(name: str) -> VitConfig:
    """Return a transformer with the tokens of its last block as the only level, as published baselines use it."""
    last = ARCHITECTURES[name].sizes["num_hidden_layers"] - 1
    return VitConfig(name=name, layers=(last,), facets=("token",))


def _resnet(name: str) -> ResNetConfig:
    """Return a residual network with all bottlenecks of its last two stages as levels."""
    depths = DEPTHS[name]
    return ResNetConfig(name=name, layers=tuple(range(sum(depths[:2]), sum(depths))), width=None)


NAMED_BACKBONES: dict[str, BackboneConfig] = {
    "efficientnet-lite0": EfficientNetLiteConfig(name="efficientnet-lite0", layers=tuple(range(6, 15))),
    "efficientnet-lite1": EfficientNetLiteConfig(name="efficientnet-lite1"),
    "efficientnet-lite2": EfficientNetLiteConfig(),
    **{name: _resnet(name) for name in DEPTHS},
    **{name: _vit(name) for name, architecture in ARCHITECTURES.items() if architecture.hub_id},
    # its last blocks were tuned to find salient objects, not to tell their parts apart
    FOCUS: VitConfig(name="dinov2-small", weights=FOCUS, layers=(9,), facets=("token",)),
}


def named_backbone(name: str) -> BackboneConfig:
    """Return the configuration of a backbone.

    Raises:
        ConfigError: There is no such backbone.
    """
    if name not in NAMED_BACKBONES:
        raise unknown("backbone", name, NAMED_BACKBONES)
    return NAMED_BACKBONES[name]


def patch_side(config: BackboneConfig) -> int:
    """Return the input pixels per grid position: a transformer's patch, or the 16 of the convolutional networks."""
    return ARCHITECTURES[config.name].sizes["patch_size"] if isinstance(config, VitConfig) else 16
