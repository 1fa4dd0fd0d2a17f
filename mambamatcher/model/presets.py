"""Complete configurations by name: the paper's model, its variants, and other methods built from the same parts."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mambamatcher.model.backbones import EfficientNetLiteConfig, ResNetConfig, VitConfig
from mambamatcher.model.backbones.named import NAMED_BACKBONES, named_backbone, patch_side
from mambamatcher.model.correlation import (
    CatsAggregation,
    CatsPlusPlusAggregation,
    Conv4dAggregation,
    FastFormerAggregation,
    HighResolutionAggregation,
    MeanAggregation,
    SimilarityScanAggregation,
)
from mambamatcher.model.features import ConvAggregation, NoAggregation, SpatialContextAggregation
from mambamatcher.model.layers.mamba import MambaSettings
from mambamatcher.model.mambamatcher import ModelConfig
from mambamatcher.model.transfer_settings import SHARP, SOFT_ARGMAX
from mambamatcher.registry import Registry

PRESETS: Registry[Callable[[], ModelConfig]] = Registry("preset")


@PRESETS.register("paper")
def paper() -> ModelConfig:
    """MambaMatcher as published: DINOv2-B at 420 px, layers 4-11, value and token, and the printed readout.

    The printed readout has no temperature, so the scale of the scores has to be learnt: an untrained model matches
    every point close to the centre of the target.
    """
    return ModelConfig()


@PRESETS.register("paper-sharp")
def paper_sharp() -> ModelConfig:
    """The paper's model with this package's readout, which also reads untrained scores."""
    return replace(paper(), transfer=SHARP)


@PRESETS.register("strong")
def strong() -> ModelConfig:
    """The paper's model with two later improvements: 840 px images and fine-tuning of the last four blocks."""
    return replace(paper(), side=840, backbone=VitConfig(trainable_blocks=4))


@PRESETS.register("resnet101")
def resnet101() -> ModelConfig:
    """The paper's model with ResNet-101 at 480 px, which gives the same 30x30 grid."""
    return replace(paper(), side=480, backbone=ResNetConfig())


@PRESETS.register("efficientnet")
def efficientnet() -> ModelConfig:
    """A complete MambaMatcher for a laptop: EfficientNet-Lite2, 11 levels of 64 channels, a 24x24 grid.

    Both aggregators add zero at initialisation. The temperature is the one its scores were trained with.
    """
    return ModelConfig(
        side=384,
        backbone=EfficientNetLiteConfig(width=64),
        features=ConvAggregation(hidden_ratio=2, final_activation=False, residual=True),
        correlation=SimilarityScanAggregation(identity_start=True, mamba=MambaSettings(state=8, expand=2)),
        transfer=replace(SHARP, temperature=20.0),
    )


@PRESETS.register("tiny")
def tiny() -> ModelConfig:
    """All parts of the paper's model in a size for tests, with random weights and the readout `paper-sharp`."""
    return ModelConfig(
        side=84,
        backbone=VitConfig(name="dinov2-tiny", layers=(2, 3), weights="random"),
        features=ConvAggregation(hidden_ratio=1),
        correlation=SimilarityScanAggregation(mamba=MambaSettings(state=4, expand=2)),
        transfer=SHARP,
    )


def nearest(backbone: str = "efficientnet-lite2") -> ModelConfig:
    """Nearest neighbours of a backbone's raw features on a 30x30 grid.

    It has no trained parts, so it needs no training. The preset `nearest-BACKBONE` is the same for another backbone,
    such as `nearest-dinov2-base` or `nearest-vit-s-focus`.

    Args:
        backbone: Name of the backbone.

    Raises:
        ConfigError: There is no such backbone.

    Example:
        >>> nearest("dinov2-base").side
        420
    """
    config = named_backbone(backbone)
    return ModelConfig(
        side=30 * patch_side(config),
        backbone=config,
        features=NoAggregation(),
        correlation=MeanAggregation(),
        transfer=replace(SHARP, readout="argmax"),
    )


PRESETS.register("nearest")(nearest)
for _backbone in NAMED_BACKBONES:
    PRESETS.register(f"nearest-{_backbone}")(partial(nearest, _backbone))


@PRESETS.register("ncnet")
def ncnet() -> ModelConfig:
    """NCNet-style: neighbourhood consensus by 4D convolutions on the last features of ResNet-101's third stage."""
    return ModelConfig(
        side=400,
        backbone=ResNetConfig(layers=(29,), width=None),
        features=NoAggregation(),
        correlation=Conv4dAggregation(kernel_size=5, hidden=(16, 16), consensus=True),
        transfer=SHARP,
    )


@PRESETS.register("transformatcher")
def transformatcher() -> ModelConfig:
    """TransforMatcher-style: FastFormer over the multi-level correlation map of ResNet-101's bottlenecks.

    The published model also upsamples the refined map from 15 to 30 cells per side; this one does not.
    """
    return ModelConfig(
        side=240,
        backbone=ResNetConfig(width=None),
        features=NoAggregation(),
        correlation=FastFormerAggregation(),
    )


@PRESETS.register("cats")
def cats() -> ModelConfig:
    """CATs: a transformer over 8 levels of ResNet-101 at 256 px, on a 16x16 grid, with the whole backbone tuned.

    The levels are those published for SPair-71k. What differs from the published model: the loss is the distance of
    the annotated points instead of that of a flow field around them; see also `CatsAggregation`.
    """
    return ModelConfig(
        side=256,
        backbone=ResNetConfig(
            layers=(-1, 7, 19, 20, 25, 27, 28, 29), width=None, before_relu=True, trainable_blocks=31
        ),
        features=NoAggregation(),
        correlation=CatsAggregation(),
        transfer=SOFT_ARGMAX,
    )


@PRESETS.register("cats++")
def cats_plus_plus() -> ModelConfig:
    """CATs++: 4D convolutions and transformers over the last 30 bottlenecks of ResNet-101 at 512 px, all tuned.

    The map has a 32x32 grid as published. What differs from the published model: the stages share that grid, and the
    loss is the distance of the annotated points; see also `CatsPlusPlusAggregation`.
    """
    return ModelConfig(
        side=512,
        backbone=ResNetConfig(layers=tuple(range(3, 33)), width=None, before_relu=True, trainable_blocks=34),
        features=NoAggregation(),
        correlation=CatsPlusPlusAggregation(stages=(4, 23, 3)),
        transfer=SOFT_ARGMAX,
    )


@PRESETS.register("scorrsan")
def scorrsan() -> ModelConfig:
    """SCorrSAN: a spatial context encoder on one level of ResNet-101 at 256 px, all tuned, read on a 64x64 grid.

    Its pseudo-labels are a part of the recipe, for any model: `pseudo.weight=1`. What differs from the published
    model: the loss is the distance of the annotated points instead of that of a flow field around them; see also
    `HighResolutionAggregation` and `PseudoLabels`.
    """
    return ModelConfig(
        side=256,
        backbone=ResNetConfig(layers=(29,), width=None, before_relu=True, trainable_blocks=31),
        features=SpatialContextAggregation(),
        correlation=HighResolutionAggregation(),
        transfer=SOFT_ARGMAX,
    )
