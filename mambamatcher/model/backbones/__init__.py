"""Visual feature extractors: any choice of layers (and facets) as a stack of levels."""

from mambamatcher.model.backbones.efficientnet_lite import EfficientNetLiteConfig
from mambamatcher.model.backbones.facets import BACKBONES, Backbone, BackboneConfig
from mambamatcher.model.backbones.resnet import ResNetConfig
from mambamatcher.model.backbones.vit import VitConfig

__all__ = ["BACKBONES", "Backbone", "BackboneConfig", "EfficientNetLiteConfig", "ResNetConfig", "VitConfig"]
