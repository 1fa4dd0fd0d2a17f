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
    HoughAggregation,
    MeanAggregation,
    PointwiseAggregation,
    SimilarityScanAggregation,
)
from mambamatcher.model.features import (
    ConvAggregation,
    NoAggregation,
    ScaleSpaceAggregation,
    SlicedAggregation,
    SpatialContextAggregation,
)
from mambamatcher.model.layers.mamba import MambaSettings
from mambamatcher.model.mambamatcher import ModelConfig
from mambamatcher.model.transfer_settings import SHARP, SOFT_ARGMAX, Transfer
from mambamatcher.registry import Registry

WHOLE_RESNET101 = 34  # its 33 bottlenecks and the stem
CONV4, CONV5 = 23, 3  # bottlenecks of the last two stages of ResNet-101

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
    """NCNet (Rocco et al., NeurIPS 2018): neighbourhood consensus by symmetric 4D convolutions at 400 px.

    As published: the frozen features of ResNet-101's third stage, a 25x25 grid, three 5x5x5x5 convolutions with 16, 16
    and 1 channels, the mutual filter before and after. What differs: NCNet trains without keypoints, by the scores of
    matching and non-matching pairs, and reads the best position of the refined map; here both are as for every model.
    """
    return ModelConfig(
        side=400,
        backbone=ResNetConfig(layers=(29,), width=None),
        features=NoAggregation(),
        correlation=Conv4dAggregation(kernel_size=5, hidden=(16, 16), consensus=True),
        transfer=SHARP,
    )


@PRESETS.register("transformatcher")
def transformatcher() -> ModelConfig:
    """TransforMatcher (Kim, Min and Cho, CVPR 2022): additive attention between all matches, 240 px, tuned ResNet-101.

    As published: 26 levels (all bottlenecks of the last two stages) on a 15x15 grid, 6 layers of 8 heads of width 4 on
    16 channels, rotary positions, ReLU on the scores, upsampling to 30x30, and the printed readout. What differs: the
    last stage is interpolated before its features are normalised, not after; upsampling aligns cell centres, not
    corners; and batch norm keeps its ImageNet statistics.
    """
    return ModelConfig(
        side=240,
        backbone=ResNetConfig(width=None, trainable_blocks=WHOLE_RESNET101),
        features=NoAggregation(),
        correlation=FastFormerAggregation(upsample=2),
    )


@PRESETS.register("chm")
def chm() -> ModelConfig:
    """CHM (Min and Cho, CVPR 2021): convolutional Hough matching over positions and scales, 240 px, tuned ResNet-101.

    As published: the features of ResNet-101's third stage at three scales, 1024 to 256 channels each, a 6D kernel with
    220 shared weights on a 15x15 grid, the best pair of scales, upsampling to 30x30, a 4D kernel with 55 shared
    weights, the mutual filter, and a kernel soft-argmax with a sigma of 17 cells. What differs: resizing aligns cell
    centres, not corners, and batch norm keeps its ImageNet statistics.
    """
    return ModelConfig(
        side=240,
        backbone=ResNetConfig(layers=(29,), width=None, trainable_blocks=WHOLE_RESNET101),
        features=ScaleSpaceAggregation(),
        correlation=HoughAggregation(),
        transfer=Transfer(sigma=17 * 2 / 30, radius=0.1),
    )


@PRESETS.register("hccnet")
def hccnet() -> ModelConfig:
    """HCCNet (Kim, Min and Cho, WACV 2024): pointwise convolutions on the correlation of many slices of features.

    As published: 240 px, tuned ResNet-101, bottleneck features cut into slices along the channels, one correlation map
    for each slice, pointwise convolutions instead of 4D ones. The authors published no code, and only the abstract was
    at hand. What is ours: the layers and the readout (TransforMatcher's, by the same authors), slices of 256 channels,
    one hidden layer of 128 channels, and upsampling to 30x30.
    """
    return ModelConfig(
        side=240,
        backbone=ResNetConfig(width=None, trainable_blocks=WHOLE_RESNET101),
        features=SlicedAggregation(slices=8, channels=(1024,) * CONV4 + (2048,) * CONV5),
        correlation=PointwiseAggregation(),
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
