"""ResNet-50 and ResNet-101 from transformers. Each level is the output of one bottleneck."""

import re
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.model.backbones.facets import BACKBONES, IMAGENET_MEAN, IMAGENET_STD, Backbone, BackboneConfig, Images
from mambamatcher.model.backbones.weights import StateDict, load_transformers, rename
from mambamatcher.registry import unknown

DEPTHS = {"resnet-50": [3, 4, 6, 3], "resnet-101": [3, 4, 23, 3]}


@BACKBONES.register("resnet")
@dataclass(frozen=True, kw_only=True, slots=True)
class ResNetConfig(BackboneConfig):
    """A residual network. By default the levels are all bottlenecks of the last two stages.

    Layer -1 is the output of the stem, after its pooling.

    Attributes:
        before_relu: Whether a level is a bottleneck's sum before its last ReLU, as hyperpixel methods take it.
    """

    name: str = "resnet-101"
    layers: tuple[int, ...] = tuple(range(7, 33))
    width: int | None = 256
    before_relu: bool = False

    def __post_init__(self) -> None:
        BackboneConfig.__post_init__(self)
        if self.name not in DEPTHS:
            raise unknown("residual network", self.name, DEPTHS)

    def build(self) -> "ResNet":
        """Build the network and load its weights."""
        return ResNet(self)


class ResNet(Backbone):
    """Bottleneck outputs on a grid with stride 16; outputs of other strides are interpolated to it."""

    stride = 16
    first_layer = -1
    config: ResNetConfig

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__(config, IMAGENET_MEAN, IMAGENET_STD)
        import transformers  # takes seconds, and not all backbones need it

        depths = DEPTHS[config.name]
        hub_config = transformers.ResNetConfig(depths=depths, layer_type="bottleneck")
        self.network = load_transformers(
            transformers.ResNetModel, hub_config, config.weights, f"microsoft/{config.name}", from_torchvision
        )
        channels = dict(enumerate(c for c, n in zip(hub_config.hidden_sizes, depths, strict=True) for _ in range(n)))
        channels[-1] = hub_config.embedding_size
        self.level_channels = tuple(channels[layer] for layer in config.layers if layer in channels)
        self.finish()

    def blocks(self) -> list[nn.Module]:
        """Return the bottlenecks of all four stages in order."""
        return [block for stage in self.network.encoder.stages for block in stage.layers]

    def stem(self) -> list[nn.Parameter]:
        """Return the first convolution and its norm."""
        return list(self.network.embedder.parameters())

    def levels(self, images: Images) -> list[Float[Tensor, "batch _ _ _"]]:
        """Run the network up to the last requested bottleneck."""
        x = self.network.embedder(images)
        outputs = {-1: x}
        for index, block in enumerate(self.blocks()[: max(self.config.layers) + 1]):
            total = block.get_submodule("layer")(x) + block.get_submodule("shortcut")(x)
            x = block.get_submodule("activation")(total)
            outputs[index] = total if self.config.before_relu else x
        return [outputs[layer] for layer in self.config.layers]


TORCHVISION_NAMES = (
    (r"^conv1\.", "embedder.embedder.convolution."),
    (r"^bn1\.", "embedder.embedder.normalization."),
    (r"^layer(\d)\.(\d+)\.downsample\.0\.", r"encoder.stages.\1.layers.\2.shortcut.convolution."),
    (r"^layer(\d)\.(\d+)\.downsample\.1\.", r"encoder.stages.\1.layers.\2.shortcut.normalization."),
    (r"^layer(\d)\.(\d+)\.conv(\d)\.", r"encoder.stages.\1.layers.\2.layer.\3.convolution."),
    (r"^layer(\d)\.(\d+)\.bn(\d)\.", r"encoder.stages.\1.layers.\2.layer.\3.normalization."),
)


def from_torchvision(state: StateDict) -> StateDict:
    """Rename the keys of a torchvision ResNet to those of transformers; other state dicts are returned as is."""
    if "layer1.0.conv1.weight" not in state:
        return state
    renamed: StateDict = {}
    for key, value in state.items():
        if not key.startswith("fc."):
            # torchvision counts stages and convolutions from 1
            counted = re.sub(r"(stages|layer)\.(\d)\.", _one_less, rename(key, TORCHVISION_NAMES))
            renamed[counted] = value
    return renamed


def _one_less(match: re.Match[str]) -> str:
    return f"{match[1]}.{int(match[2]) - 1}."
