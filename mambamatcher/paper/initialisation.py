"""Initialisation of trained rows from a model with a linear head, such as the shipped model `lite`.

Every correlation aggregation of the paper is initialised to compute the same function: the weighted sum of levels that
this model learnt. FastFormer computes it of the positive scores, because TransforMatcher clips scores at zero. A scan
with a layer scale adds a little from the start, so that it learns at once. All other differences between rows come from
their own training. Heads of other systems start with weights of their own.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from mambamatcher.datasets.dataset import PairDataset
from mambamatcher.datasets.records import Pair
from mambamatcher.model.checkpoint import load_pretrained, save_pretrained
from mambamatcher.model.correlation.conv4d import Conv4d, Conv4dAggregator
from mambamatcher.model.correlation.fastformer import FastFormerAggregator
from mambamatcher.model.correlation.noised import NoisedAggregator
from mambamatcher.model.correlation.similarity_scan import SimilarityScan
from mambamatcher.model.layers.fastformer import AdditiveAttention, FastFormerLayer
from mambamatcher.model.layers.mamba import SelectiveBlock
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig
from mambamatcher.training.start import PAIRS, principal_projections


def write_initial_model(
    config: ModelConfig, folder: Path, seed: int, trained: Path, *, new_features: bool, own_start: bool = False
) -> None:
    """Save the initial model of a row.

    Args:
        config: Configuration of the row's model.
        folder: Where to save it.
        seed: Seed of the parts that the trained model does not have.
        trained: Folder of a trained model with the same backbone and a linear head.
        new_features: Initialise the feature aggregation randomly instead of copying that of the trained model.
        own_start: Initialise the head randomly instead of as the weighted sum that the trained model computes.
    """
    source = load_pretrained(trained)
    torch.manual_seed(seed)
    model = MambaMatcher(config)
    copy_backbone(source, model)
    if not new_features:
        model.features.load_state_dict(source.features.state_dict())
    project = source.correlation.get_submodule("project")
    levels = config.features.levels_after(len(model.backbone.level_channels))
    if not own_start and project.get_parameter("weight").shape[1] == levels:
        initialise_as_weighted_sum(model.correlation, project)
    save_pretrained(model, folder, overwrite=True)


def write_untrained_levels(config: ModelConfig, folder: Path, trained: Path, pairs: Sequence[Pair]) -> None:
    """Save a model with the backbone of a trained one and principal components as projections, to train its features.

    Args:
        config: Configuration of the model.
        folder: Where to save it.
        trained: Folder of the trained model.
        pairs: Pairs whose images the components are computed from.
    """
    torch.manual_seed(0)
    model = MambaMatcher(config)
    copy_backbone(load_pretrained(trained), model)
    dataset = PairDataset(pairs[:PAIRS], config.side)
    principal_projections(model.backbone, [dataset[index].source_image for index in range(len(dataset))])
    save_pretrained(model, folder, overwrite=True)


def copy_backbone(source: MambaMatcher, model: MambaMatcher) -> None:
    """Copy the network, and the projections if both models have the same ones."""
    theirs, own = source.backbone.state_dict(), model.backbone.state_dict()
    fits = {key for key, value in own.items() if key in theirs and theirs[key].shape == value.shape}
    model.backbone.load_state_dict({key: theirs[key] if key in fits else value for key, value in own.items()})


@torch.no_grad()
def initialise_as_weighted_sum(aggregation: nn.Module, project: nn.Module) -> None:
    """Make an untrained aggregation compute the same as `project`, a linear layer from all levels to one."""
    weight, bias = project.get_parameter("weight"), project.get_parameter("bias")
    is_scaled = isinstance(aggregation, SimilarityScan) and len(aggregation.scales) > 0
    for module in aggregation.modules():
        if isinstance(module, SelectiveBlock) and not is_scaled:
            module.out_proj.weight.zero_()
        elif isinstance(module, AdditiveAttention):
            _set_zero(module.out)
        elif isinstance(module, FastFormerLayer):
            _set_zero(module.feed_forward[-1])
        elif isinstance(module, Conv4d):
            middle = module.weight.shape[-1] // 2
            module.weight.zero_()
            module.weight[:, :, middle, middle, middle, middle] = weight
            module.bias.copy_(bias)
    if isinstance(aggregation, FastFormerAggregator):
        aggregation.embed.weight[0] = weight[0]  # the other channels keep their random weights
        aggregation.embed.bias[0] = bias[0]
        _set_zero(aggregation.project)
        aggregation.project.weight[0, 0] = 1.0
    elif not isinstance(aggregation, Conv4dAggregator | NoisedAggregator):
        aggregation.get_submodule("project").load_state_dict(project.state_dict())


def _set_zero(layer: nn.Module) -> None:
    for parameter in layer.parameters():
        parameter.zero_()
