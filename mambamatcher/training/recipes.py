"""Complete training runs by name: model, data and schedule of each model this project trains."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from mambamatcher.datasets.transforms import Augmentation
from mambamatcher.model.backbones import VitConfig
from mambamatcher.model.backbones.focus import FOCUS
from mambamatcher.model.checkpoint import build_empty, read_config
from mambamatcher.model.correlation import LinearAggregation
from mambamatcher.model.features import FusedAggregation
from mambamatcher.model.mambamatcher import ModelConfig
from mambamatcher.model.presets import PRESETS
from mambamatcher.model.saved import CONFIG, find_pretrained, require_saved
from mambamatcher.model.transfer_settings import SHARP
from mambamatcher.registry import Registry
from mambamatcher.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class NamedRecipe:
    """A recipe with the data it is for."""

    recipe: Recipe
    dataset: str
    split: str = "trn"
    validation_pairs: int = 120


RECIPES: Registry[Callable[[], NamedRecipe]] = Registry("recipe")
RUNS = "runs"  # where recipes that continue another run expect it, in a folder of its name
AVERAGED = f"{RUNS}/lite-averaged"  # mean of the weights of `lite` and `lite-continued`


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Recipes that make one model, one after the other.

    Attributes:
        recipes: Their names. Each run starts from the last checkpoint of the one before.
        readout: Changes to the configuration of the trained model: how matches are read out at inference.
    """

    recipes: tuple[str, ...]
    readout: tuple[str, ...]


CHAINS = {  # the readout was chosen on the selection split
    "default": Chain(
        recipes=("vit-s", "vit-s-decay"),
        readout=(
            "side=350",
            "mirror=true",
            "transfer.radius=0.08",
            "transfer.readout=mean_shift",
            "transfer.sigma=0.18",
            "transfer.temperature=28",
            "transfer.training_temperature=20",
        ),
    ),
}


def vit_s_model() -> ModelConfig:
    """ViT-S/14 from `vit-s-focus`, every block tuned, with the tokens of five blocks fused into one level.

    A linear aggregation of one level is a learnt temperature.
    """
    return ModelConfig(
        side=280,
        backbone=VitConfig(
            name="dinov2-small", weights=FOCUS, layers=(3, 5, 7, 9, 11), facets=("token",), trainable_blocks=13
        ),
        features=FusedAggregation(),
        correlation=LinearAggregation(),
        transfer=replace(SHARP, temperature=20.0, blend="scores"),
    )


@RECIPES.register("vit-s")
def vit_s() -> NamedRecipe:
    """Fine-tune `vit-s-focus` at a constant rate; every checkpoint can be branched off by `vit-s-decay`.

    A step sees two groups of six images of one category each, and learns from all ordered pairs within a group.
    """
    return NamedRecipe(
        dataset="voc",
        recipe=Recipe(
            model=vit_s_model(),
            steps=2_000,
            round_steps=100,
            effective_batch=2,
            batch_size=1,
            group_images=6,
            sides=(224,),
            learning_rate=1e-3,
            backbone_learning_rate=4e-5,
            layer_decay=0.9,
            weight_decay=0.01,
            warmup_steps=50,
            averaging=0.995,
            clip_norm=5.0,
            keypoint_weight=0.0,
            cross_entropy_weight=1.0,
            augmentation=Augmentation(flip=0.5),
            workers=0,
        ),
    )


@RECIPES.register("vit-s-decay")
def vit_s_decay() -> NamedRecipe:
    """Branch off the last checkpoint of `vit-s`: decay the rate to zero, partly at a larger side, for a model to ship.

    Here the model also learns whether the target shows a point at all.
    """
    named = vit_s()
    decay = replace(
        named.recipe,
        start=f"{RUNS}/vit-s/last.ckpt",
        steps=720,
        round_steps=80,
        group_images=8,
        sides=(224, 224, 280),
        correlation_learning_rate=5e-3,
        schedule="cosine",
        warmup_steps=20,
        averaging=0.99,
        absence_weight=0.3,
    )
    return replace(named, recipe=decay)


def fine_tune(start: str) -> Recipe:
    """Fine-tune a saved model on a few annotated images, some minutes on two cores.

    Args:
        start: Folder of the model, or the name of a shipped one.
    """
    folder = find_pretrained(start)
    require_saved(folder)
    model = read_config(folder / CONFIG)
    return Recipe(
        model=model,
        start=start,
        steps=100,
        round_steps=100,  # no epoch is chosen: a few held-out images cannot tell epochs apart
        effective_batch=1,
        batch_size=1,
        group_images=8,
        sides=(_smaller_side(model),),
        learning_rate=5e-4,
        backbone_learning_rate=1e-4,
        layer_decay=0.9,
        weight_decay=0.01,
        schedule="cosine",
        warmup_steps=10,
        averaging=0.95,
        clip_norm=5.0,
        keypoint_weight=0.0,
        cross_entropy_weight=1.0,
        augmentation=Augmentation(flip=0.5),
        workers=0,
    )


def _smaller_side(model: ModelConfig) -> int:
    """Return two thirds of the side of a model, in whole patches: a step then takes less than half the time."""
    with torch.device("meta"):  # only its stride is needed
        stride = build_empty(model).backbone.stride
    return max(1, round(2 * model.side / 3 / stride)) * stride


def _lite(side: int) -> Recipe:
    """Return what all runs of `lite` share: every block tuned, cross-entropy, no scan.

    The schedule is left to each run. The linear aggregation is used for its speed; whether the scan would be more
    accurate here is not known.
    """
    model = PRESETS["efficientnet"]()
    return Recipe(
        model=replace(
            model,
            side=side,
            backbone=replace(model.backbone, trainable_blocks=13),
            correlation=LinearAggregation(),
        ),
        batch_size=1,
        group_images=8,
        schedule="cosine",
        keypoint_weight=0.0,
        cross_entropy_weight=1.0,
        augmentation=Augmentation(flip=0.5),
        workers=0,
    )


@RECIPES.register("lite")
def lite() -> NamedRecipe:
    """Train `lite` from ImageNet weights, at 320 px."""
    recipe = replace(
        _lite(side=320),
        steps=900,
        round_steps=150,
        effective_batch=2,
        learning_rate=1e-3,
        backbone_learning_rate=2e-4,
        warmup_steps=50,
        averaging=0.995,
    )
    return NamedRecipe(recipe=recipe, dataset="voc", validation_pairs=100)


@RECIPES.register("lite-continued")
def lite_continued() -> NamedRecipe:
    """Continue `lite` at 384 px. The shipped model is the mean of both."""
    recipe = replace(
        _lite(side=384),
        start=f"{RUNS}/lite/model",
        seed=1,
        steps=480,
        round_steps=480,
        effective_batch=2,
        learning_rate=6e-4,
        backbone_learning_rate=2e-4,
        warmup_steps=20,
        averaging=0.99,
    )
    return NamedRecipe(recipe=recipe, dataset="voc", validation_pairs=100)


@RECIPES.register("pf-pascal")
def pf_pascal() -> NamedRecipe:
    """Train the model of `lite` on nothing but PF-PASCAL's official pairs."""
    recipe = replace(
        _lite(side=320),
        steps=240,
        round_steps=80,
        effective_batch=1,
        learning_rate=1e-3,
        backbone_learning_rate=2e-4,
        warmup_steps=20,
        averaging=0.98,
    )
    return NamedRecipe(recipe=recipe, dataset="pf-pascal", validation_pairs=100)


@RECIPES.register("pf-pascal-continued")
def pf_pascal_continued() -> NamedRecipe:
    """Continue `pf-pascal` with a higher rate for the backbone."""
    first = pf_pascal()
    recipe = replace(
        first.recipe,
        start=f"{RUNS}/pf-pascal/model",
        seed=1,
        steps=500,
        round_steps=500,
        backbone_learning_rate=3e-4,
        warmup_steps=10,
    )
    return replace(first, recipe=recipe)


@RECIPES.register("control-scan")
def control_scan() -> NamedRecipe:
    """Add the similarity-aware scan to the averaged model and train a little. `control-linear` does so without it."""
    linear = control_linear()
    model = replace(linear.recipe.model, correlation=PRESETS["efficientnet"]().correlation)
    return replace(linear, recipe=replace(linear.recipe, model=model))


@RECIPES.register("control-linear")
def control_linear() -> NamedRecipe:
    """Train the averaged model a little more, to compare with `control-scan`."""
    base = _lite(side=320)
    recipe = replace(
        base,
        model=replace(base.model, transfer=replace(base.model.transfer, blend="scores")),
        start=AVERAGED,
        steps=100,
        round_steps=100,
        effective_batch=1,
        group_images=3,
        learning_rate=5e-4,
        backbone_learning_rate=5e-5,
        warmup_steps=10,
        averaging=0.97,
    )
    return NamedRecipe(recipe=recipe, dataset="voc", validation_pairs=20)


@RECIPES.register("unseen")
def unseen() -> NamedRecipe:
    """Fine-tune the ViT on 15,000 images without a third of each category's keypoint names, to evaluate on those."""
    named = vit_s()
    recipe = replace(named.recipe, steps=1_250, round_steps=125, schedule="cosine", averaging=0.99)
    return replace(named, recipe=recipe, split="trn-seen", validation_pairs=60)
