"""Visual feature extractors: any choice of layers (and facets) as a stack of levels."""

from mambamatcher.backbones.efficientnet_lite import EfficientNetLiteConfig
from mambamatcher.backbones.facets import BACKBONES, Backbone, BackboneConfig
from mambamatcher.backbones.resnet import ResNetConfig
from mambamatcher.backbones.vit import VitConfig

__all__ = ["BACKBONES", "Backbone", "BackboneConfig", "EfficientNetLiteConfig", "ResNetConfig", "VitConfig"]
