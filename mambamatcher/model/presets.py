"""Whole configurations by name: the paper's model, its variants, and peers made of the same parts."""

from collections.abc import Callable
from dataclasses import replace

from mambamatcher.model.backbones import EfficientNetLiteConfig, ResNetConfig, VitConfig
from mambamatcher.model.correlation import (
    Conv4dAggregation,
    FastFormerAggregation,
    MeanAggregation,
    SimilarityScanAggregation,
)
from mambamatcher.model.features import ConvAggregation, NoAggregation
from mambamatcher.model.layers.mamba import MambaSettings
from mambamatcher.model.mambamatcher import ModelConfig
from mambamatcher.model.transfer import Transfer
from mambamatcher.registry import Registry

PRESETS: Registry[Callable[[], ModelConfig]] = Registry("preset")


@PRESETS.register("paper")
def paper() -> ModelConfig:
    """MambaMatcher as published: DINOv2-B at 420 px, layers 4-11, value and token."""
    return ModelConfig()


@PRESETS.register("strong")
def strong() -> ModelConfig:
    """The paper's model with what has moved the records since: the last blocks tuned, 840 px."""
    return replace(paper(), side=840, backbone=VitConfig(trainable_blocks=4))


@PRESETS.register("resnet101")
def resnet101() -> ModelConfig:
    """The paper's model on ResNet-101, at the side that gives the same 30x30 grid."""
    return replace(paper(), side=480, backbone=ResNetConfig())


@PRESETS.register("efficientnet")
def efficientnet() -> ModelConfig:
    """A complete MambaMatcher small enough for a laptop: EfficientNet-Lite2, 11 levels of 64 channels, a 24x24 grid.

    The temperature is what its scores were trained with; every part that is added begins as adding nothing.
    """
    return ModelConfig(
        side=384,
        backbone=EfficientNetLiteConfig(width=64),
        features=ConvAggregation(hidden_ratio=2, final_activation=False, residual=True),
        correlation=SimilarityScanAggregation(identity_start=True, mamba=MambaSettings(state=8, expand=2)),
        transfer=Transfer(temperature=20.0),
    )


@PRESETS.register("tiny")
def tiny() -> ModelConfig:
    """Everything the paper's model has, in a size that tests run in a moment."""
    return ModelConfig(
        side=84,
        backbone=VitConfig(name="dinov2-tiny", layers=(2, 3), weights="random"),
        features=ConvAggregation(hidden_ratio=1),
        correlation=SimilarityScanAggregation(mamba=MambaSettings(state=4, expand=2)),
    )


@PRESETS.register("nearest")
def nearest() -> ModelConfig:
    """Nearest neighbours on EfficientNet-Lite2's raw features: nothing is trained, so it works as it is."""
    return ModelConfig(
        side=480,
        backbone=EfficientNetLiteConfig(),
        features=NoAggregation(),
        correlation=MeanAggregation(),
        transfer=Transfer(readout="argmax"),
    )


@PRESETS.register("ncnet")
def ncnet() -> ModelConfig:
    """NCNet-style: neighbourhood consensus by 4D convolutions on ResNet-101's last features of stage 3."""
    return ModelConfig(
        side=400,
        backbone=ResNetConfig(layers=(29,), width=None),
        features=NoAggregation(),
        correlation=Conv4dAggregation(kernel_size=5, hidden=(16, 16), consensus=True),
    )


@PRESETS.register("transformatcher")
def transformatcher() -> ModelConfig:
    """TransforMatcher-style: FastFormer over the multi-level correlation of ResNet-101's bottlenecks."""
    return ModelConfig(
        side=240,
        backbone=ResNetConfig(width=None),
        features=NoAggregation(),
        correlation=FastFormerAggregation(),
    )
