"""What a trained row begins with: the embedded model, and in place of what the row changes something that adds nothing.

Every correlation aggregation begins as the very same function, the weighted sum of levels that the embedded model
learnt, so that what a row gains is gained in its own training.
"""

from pathlib import Path

import torch
from torch import nn

from mambamatcher.model.checkpoint import EMBEDDED, load_pretrained, save_pretrained
from mambamatcher.model.correlation.conv4d import Conv4d, Conv4dAggregator
from mambamatcher.model.layers.fastformer import AdditiveAttention, FastFormerLayer
from mambamatcher.model.layers.mamba import Mamba
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig


def write_beginning(config: ModelConfig, folder: Path, seed: int, *, new_features: bool) -> None:
    """Save the model a row begins with, its feature aggregation the embedded one unless it is to be new."""
    embedded = load_pretrained(EMBEDDED)
    torch.manual_seed(seed)
    model = MambaMatcher(config)
    model.backbone.load_state_dict(embedded.backbone.state_dict())
    if not new_features:
        model.features.load_state_dict(embedded.features.state_dict())
    begin_as_weighted_sum(model.correlation, embedded.correlation.get_submodule("project"))
    save_pretrained(model, folder, overwrite=True)


@torch.no_grad()
def begin_as_weighted_sum(aggregation: nn.Module, project: nn.Module) -> None:
    """Make an untrained aggregation compute exactly what `project`, from all levels to one, computes."""
    weight, bias = project.get_parameter("weight"), project.get_parameter("bias")
    for module in aggregation.modules():
        if isinstance(module, Mamba):
            module.out_proj.weight.zero_()
        elif isinstance(module, AdditiveAttention):
            _silence(module.out)
        elif isinstance(module, FastFormerLayer):
            _silence(module.feed_forward[-1])
        elif isinstance(module, Conv4d):
            middle = module.weight.shape[-1] // 2
            module.weight.zero_()
            module.weight[:, :, middle, middle, middle, middle] = weight
            module.bias.copy_(bias)
    if not isinstance(aggregation, Conv4dAggregator):
        aggregation.get_submodule("project").load_state_dict(project.state_dict())


def _silence(layer: nn.Module) -> None:
    for parameter in layer.parameters():
        parameter.zero_()
