"""Initialisation of trained rows from the shipped model `lite`.

Every correlation aggregation is initialised to compute the same function: the weighted sum of levels that `lite`
learnt. FastFormer computes it of the positive scores, because TransforMatcher clips scores at zero. All other
differences between rows come from their own training.
"""

from pathlib import Path

import torch
from torch import nn

from mambamatcher.model.checkpoint import load_pretrained, save_pretrained
from mambamatcher.model.correlation.conv4d import Conv4d, Conv4dAggregator
from mambamatcher.model.correlation.fastformer import FastFormerAggregator
from mambamatcher.model.layers.fastformer import AdditiveAttention, FastFormerLayer
from mambamatcher.model.layers.mamba import SelectiveBlock
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig
from mambamatcher.model.saved import SHIPPED


def write_initial_model(config: ModelConfig, folder: Path, seed: int, *, new_features: bool) -> None:
    """Save the initial model of a row.

    Args:
        config: Configuration of the row's model.
        folder: Where to save it.
        seed: Seed of the parts that `lite` does not have.
        new_features: Initialise the feature aggregation randomly instead of copying that of `lite`.
    """
    lite = load_pretrained(SHIPPED["lite"])
    torch.manual_seed(seed)
    model = MambaMatcher(config)
    model.backbone.load_state_dict(lite.backbone.state_dict())
    if not new_features:
        model.features.load_state_dict(lite.features.state_dict())
    initialise_as_weighted_sum(model.correlation, lite.correlation.get_submodule("project"))
    save_pretrained(model, folder, overwrite=True)


@torch.no_grad()
def initialise_as_weighted_sum(aggregation: nn.Module, project: nn.Module) -> None:
    """Make an untrained aggregation compute the same as `project`, a linear layer from all levels to one."""
    weight, bias = project.get_parameter("weight"), project.get_parameter("bias")
    for module in aggregation.modules():
        if isinstance(module, SelectiveBlock):
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
    elif not isinstance(aggregation, Conv4dAggregator):
        aggregation.get_submodule("project").load_state_dict(project.state_dict())


def _set_zero(layer: nn.Module) -> None:
    for parameter in layer.parameters():
        parameter.zero_()
