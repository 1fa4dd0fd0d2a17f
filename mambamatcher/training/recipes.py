"""Complete training runs by name: model, data and schedule of each model this project trains."""

from collections.abc import Callable
from dataclasses import dataclass

from mambamatcher.datasets.transforms import Augmentation
from mambamatcher.model.backbones import VitConfig
from mambamatcher.model.backbones.focus import FOCUS
from mambamatcher.model.correlation import LinearAggregation
from mambamatcher.model.features import FusedAggregation
from mambamatcher.model.mambamatcher import ModelConfig
from mambamatcher.model.transfer import Transfer
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
        transfer=Transfer(temperature=20.0, blend="scores"),
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
            steps=12_500,
            round_steps=100,
            effective_batch=2,
            batch_size=1,
            group_images=6,
            sides=(224,),
            learning_rate=1e-3,
            backbone_learning_rate=6e-5,
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
