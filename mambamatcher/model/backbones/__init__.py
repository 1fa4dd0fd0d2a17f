"""Feature extractors: a stack of levels from any choice of layers and, for transformers, facets."""

from mambamatcher.model.backbones.efficientnet_lite import EfficientNetLiteConfig
from mambamatcher.model.backbones.facets import BACKBONES, Backbone, BackboneConfig
from mambamatcher.model.backbones.resnet import ResNetConfig
from mambamatcher.model.backbones.vit import VitConfig

__all__ = ["BACKBONES", "Backbone", "BackboneConfig", "EfficientNetLiteConfig", "ResNetConfig", "VitConfig"]
