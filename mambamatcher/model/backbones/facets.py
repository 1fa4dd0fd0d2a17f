"""The interface of backbones: one feature map per (layer, facet), stacked into levels (Sec. 4.1)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.io.tensor_store import TensorStore, digest
from mambamatcher.model.config import check_bounds, check_length
from mambamatcher.model.frames import Grid
from mambamatcher.registry import Registry

Facet = Literal["token", "query", "key", "value"]
FACETS: tuple[Facet, ...] = ("token", "query", "key", "value")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Images = Float[Tensor, "batch 3 height width"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BackboneConfig(ABC):
    """Options common to all backbones.

    Attributes:
        name: Name of the architecture.
        layers: Indices of the blocks whose outputs become levels.
        weights: "pretrained" (the published weights of that name), "random", a hub id, a folder or a file.
        width: Channels to which every level is projected by its own learnt 1x1 convolution. If None, narrower levels
            are padded with zeros, which does not change cosine similarities.
        trainable_blocks: Number of blocks to fine-tune, counted back from the last block used. A number above the
            number of blocks used includes the stem.
    """

    name: str
    layers: tuple[int, ...]
    weights: str = "pretrained"
    width: int | None = None
    trainable_blocks: int = 0

    def __post_init__(self) -> None:
        if not self.layers:
            raise ConfigError("backbone.layers is empty; name at least one layer")
        check_length("backbone", self, layers=128)
        check_bounds("backbone", self, width=(1, 8192), trainable_blocks=(0, 1000))

    @abstractmethod
    def build(self) -> "Backbone":
        """Build the network and load its weights."""


BACKBONES: Registry[type[BackboneConfig]] = Registry("backbone")


class Backbone(nn.Module, ABC):
    """Base class: turns images in [0, 1] into a stack of feature maps of equal size."""

    stride: int  # input pixels per grid position
    level_channels: tuple[int, ...]
    first_layer: int = 0
    mean: Tensor
    std: Tensor

    def __init__(self, config: BackboneConfig, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1), persistent=False)
        self._store: TensorStore | None = None
        self._fingerprint = ""

    @abstractmethod
    def blocks(self) -> list[nn.Module]:
        """Return the blocks in order; `layers` and `trainable_blocks` refer to them."""

    @abstractmethod
    def stem(self) -> list[nn.Parameter]:
        """Return the parameters before the first block."""

    @abstractmethod
    def levels(self, images: Images) -> list[Float[Tensor, "batch _ _ _"]]:
        """Return the chosen feature maps of normalised images in level order, each with its own size."""

    def finish(self) -> None:
        """Freeze all but the trainable blocks and create the projections; called after the network was built."""
        first, last = self.first_layer, len(self.blocks()) - 1
        if outside := [layer for layer in self.config.layers if not first <= layer <= last]:
            raise ConfigError(
                f"backbone {self.config.name!r} has layers {first} to {last}; there is no layer {outside[0]}"
            )
        self.requires_grad_(False)
        used = self.blocks()[: max(self.config.layers) + 1]
        for block in used[max(0, len(used) - self.config.trainable_blocks) :]:
            block.requires_grad_(True)
        if self.config.trainable_blocks > len(used):
            for parameter in self.stem():
                parameter.requires_grad_(True)
        self.projections = nn.ModuleList(
            nn.Conv2d(channels, self.config.width, 1) for channels in self.level_channels if self.config.width
        )
        self.train()

    @property
    def channels(self) -> int:
        """Channels of every level after projection or padding."""
        return self.config.width or max(self.level_channels)

    @property
    def used_channels(self) -> tuple[int, ...]:
        """Channels of each level before padding: those of the network, or of its projection."""
        return (self.config.width,) * len(self.level_channels) if self.config.width else self.level_channels

    def forward(self, images: Images) -> Float[Tensor, "batch level channel h w"]:
        """Extract all levels in one forward pass, on the grid with stride `stride`."""
        return self.combine(self.raw_levels(images), self.grid(images))

    def grid(self, images: Images) -> Grid:
        """Return the (height, width) of the feature maps of these images.

        Raises:
            InputError: The images have a wrong shape or type, or a size that is no multiple of the stride.
        """
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            raise InputError(
                f"images must be floating-point tensors of shape (batch, 3, height, width) with values in [0, 1], "
                f"got {images.dtype} of shape {tuple(images.shape)}"
            )
        height, width = images.shape[-2:]
        if height % self.stride or width % self.stride or not height or not width:
            nearest = [max(1, round(side / self.stride)) * self.stride for side in (height, width)]
            raise InputError(
                f"images of {height}x{width} pixels do not divide into patches of {self.stride}; "
                f"resize them to {nearest[0]}x{nearest[1]}"
            )
        return height // self.stride, width // self.stride

    def keep_levels(self, store: TensorStore) -> None:
        """Cache raw levels in a store from now on, in half precision. Only for a frozen network.

        Entries are named by a hash of the weights and of the image.
        """
        state = self.state_dict()
        self._store = store
        self._fingerprint = digest(
            repr(self.config), *(_array(state[name]) for name in state if not name.startswith("projections"))
        )

    def raw_levels(self, images: Images) -> list[Float[Tensor, "batch _ _ _"]]:
        """Run the network, or read its outputs from the store. They do not depend on the projections."""
        self.grid(images)
        if self._store is None:
            return self.levels((images - self.mean) / self.std)
        per_image = [self._stored_levels(self._store, image) for image in images]
        return [torch.cat(level).to(images.device) for level in zip(*per_image, strict=True)]

    def _stored_levels(self, store: TensorStore, image: Float[Tensor, "3 height width"]) -> list[Tensor]:
        name = digest(self._fingerprint, _array(image))
        levels = store.get((name,), lambda: name)
        if levels is None:
            with torch.no_grad():
                levels = [
                    _array(level).astype(np.float16) for level in self.levels((image[None] - self.mean) / self.std)
                ]
            store.put((name,), levels, lambda: name)
        # rounded also when just computed: results must not depend on what the store holds
        return [torch.from_numpy(level).float() for level in levels]

    def combine(
        self, levels: list[Float[Tensor, "batch _ _ _"]], grid: Grid
    ) -> Float[Tensor, "batch level channel h w"]:
        """Bring raw levels to a common grid size and width, and stack them."""
        return torch.stack([self._common(i, level, grid) for i, level in enumerate(levels)], dim=1)

    def _common(self, index: int, level: Tensor, grid: Grid) -> Float[Tensor, "batch channel h w"]:
        """Project, interpolate and pad one level."""
        if self.projections:
            level = self.projections[index](level)
        if level.shape[-2:] != grid:
            level = F.interpolate(level, grid, mode="bilinear", align_corners=False)
        return F.pad(level, (0, 0, 0, 0, 0, self.channels - level.shape[1]))

    def train(self, mode: bool = True) -> "Backbone":
        """Set the mode of the projections only: the network always stays in evaluation mode (batch norm, dropout)."""
        super().train(False)
        self.projections.train(mode)
        self.training = mode
        return self

    def trainable_parameters(self) -> list[list[nn.Parameter]]:
        """Return the fine-tuned parameters of the network by depth, from the last block used to the stem."""
        used = self.blocks()[: max(self.config.layers) + 1]
        by_depth = [*(list(block.parameters()) for block in reversed(used)), self.stem()]
        return [[p for p in parameters if p.requires_grad] for parameters in by_depth]


def _array(tensor: Tensor) -> np.ndarray:
    """Return values as the store keeps them: NumPy has no bfloat16, so floats become float32."""
    return (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().numpy()
