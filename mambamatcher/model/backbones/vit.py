"""DINOv2 and DINOv3 from transformers, with any choice of facets and layers in one forward pass."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.backbones.facets import (
    BACKBONES,
    FACETS,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Backbone,
    BackboneConfig,
    Images,
)
from mambamatcher.model.backbones.weights import StateDict, load_transformers, rename
from mambamatcher.model.config import check_length
from mambamatcher.registry import unknown

PROJECTION_OF = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}


@dataclass(frozen=True)
class Architecture:
    """One model size of one family; `model` and `config` are class names in transformers."""

    model: str
    config: str
    sizes: Mapping[str, Any]
    hub_id: str


def _dinov2(width: int, depth: int, heads: int, hub_id: str = "", **extra: Any) -> Architecture:
    family = "Dinov2WithRegisters" if "num_register_tokens" in extra else "Dinov2"
    sizes = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
    return Architecture(
        f"{family}Model", f"{family}Config", {**sizes, "image_size": 518, "patch_size": 14, **extra}, hub_id
    )


def _dinov3(width: int, depth: int, heads: int, hub_id: str) -> Architecture:
    sizes = {
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "num_register_tokens": 4,
        "patch_size": 16,
        "key_bias": False,
    }
    return Architecture("DINOv3ViTModel", "DINOv3ViTConfig", sizes, hub_id)


ARCHITECTURES = {
    # For tests only; there are no published weights. The usual standard deviation of random weights, 0.02, suits wide
    # networks: with 48 channels every block would start close to the identity and learn slowly.
    "dinov2-tiny": _dinov2(48, 4, 3, initializer_range=48**-0.5),
    "dinov2-small": _dinov2(384, 12, 6, "facebook/dinov2-small"),
    "dinov2-base": _dinov2(768, 12, 12, "facebook/dinov2-base"),
    "dinov2-large": _dinov2(1024, 24, 16, "facebook/dinov2-large"),
    "dinov2-registers-small": _dinov2(384, 12, 6, "facebook/dinov2-with-registers-small", num_register_tokens=4),
    "dinov2-registers-base": _dinov2(768, 12, 12, "facebook/dinov2-with-registers-base", num_register_tokens=4),
    "dinov2-registers-large": _dinov2(1024, 24, 16, "facebook/dinov2-with-registers-large", num_register_tokens=4),
    "dinov3-small": _dinov3(384, 12, 6, "facebook/dinov3-vits16-pretrain-lvd1689m"),
    "dinov3-base": _dinov3(768, 12, 12, "facebook/dinov3-vitb16-pretrain-lvd1689m"),
    "dinov3-large": _dinov3(1024, 24, 16, "facebook/dinov3-vitl16-pretrain-lvd1689m"),
}


@BACKBONES.register("vit")
@dataclass(frozen=True, kw_only=True, slots=True)
class VitConfig(BackboneConfig):
    """A vision transformer.

    Attributes:
        facets: Facets of each layer that become levels: "token", "query", "key" or "value".
        level_order: "by_layer" lists all facets of the first layer first, "by_facet" all layers of the first facet.
    """

    name: str = "dinov2-base"
    layers: tuple[int, ...] = tuple(range(4, 12))
    facets: tuple[str, ...] = ("value", "token")
    level_order: Literal["by_layer", "by_facet"] = "by_layer"

    def __post_init__(self) -> None:
        BackboneConfig.__post_init__(self)
        if self.name not in ARCHITECTURES:
            raise unknown("vision transformer", self.name, ARCHITECTURES)
        check_length("backbone", self, facets=len(FACETS))
        if not self.facets:
            raise ConfigError(f"backbone.facets is empty; name at least one of {', '.join(FACETS)}")
        for facet in self.facets:
            if facet not in FACETS:
                raise unknown("facet", facet, FACETS)

    @property
    def taps(self) -> list[tuple[int, str]]:
        """The (layer, facet) of each level, in level order."""
        if self.level_order == "by_layer":
            return [(layer, facet) for layer in self.layers for facet in self.facets]
        return [(layer, facet) for facet in self.facets for layer in self.layers]

    def build(self) -> "Vit":
        """Build the transformer and load its weights."""
        return Vit(self)


# Outputs recorded by the hooks of the current forward pass. A context variable keeps threads apart.
_SEEN: ContextVar[dict[tuple[int, str], Tensor] | None] = ContextVar("seen", default=None)


def _record(tap: tuple[int, str], module: nn.Module, inputs: Any, output: Tensor) -> None:
    if (seen := _SEEN.get()) is not None:
        seen[tap] = output


class Vit(Backbone):
    """A ViT from transformers with forward hooks on its blocks and projections.

    "token" is the output of a block (the residual stream, without the final norm). "query", "key" and "value" are the
    outputs of the block's projections, with all heads concatenated. Class and register tokens are dropped.
    """

    def __init__(self, config: VitConfig) -> None:
        super().__init__(config, IMAGENET_MEAN, IMAGENET_STD)
        import transformers  # takes seconds, and not all backbones need it

        architecture = ARCHITECTURES[config.name]
        self.network = load_transformers(
            getattr(transformers, architecture.model),
            getattr(transformers, architecture.config)(**architecture.sizes),
            config.weights,
            architecture.hub_id,
            from_official,
        )
        self.stride = architecture.sizes["patch_size"]
        self.taps = config.taps
        self.level_channels = (architecture.sizes["hidden_size"],) * len(self.taps)
        self.prefix = 1 + architecture.sizes.get("num_register_tokens", 0)
        self.finish()
        for layer, facet in set(self.taps):
            self._tapped(layer, facet).register_forward_hook(partial(_record, (layer, facet)))

    def blocks(self) -> list[nn.Module]:
        """Return the blocks of the transformer."""
        encoder = self.network.model if hasattr(self.network, "model") else self.network.encoder
        return list(encoder.layer)

    def stem(self) -> list[nn.Parameter]:
        """Return patch and position embeddings, class and register tokens."""
        return [tensor for name, tensor in self.network.embeddings.named_parameters() if name != "mask_token"]

    def _tapped(self, layer: int, facet: str) -> nn.Module:
        block = self.blocks()[layer]
        return block if facet == "token" else getattr(block.attention, PROJECTION_OF[facet])

    def levels(self, images: Images) -> list[Float[Tensor, "batch _ _ _"]]:
        """Run the transformer once and return the recorded facets as feature maps."""
        h = images.shape[-2] // self.stride
        seen: dict[tuple[int, str], Tensor] = {}
        reset = _SEEN.set(seen)
        try:
            self.network(images)
        finally:
            _SEEN.reset(reset)
        return [rearrange(seen[tap][:, self.prefix :], "b (h w) c -> b c h w", h=h) for tap in self.taps]


# Official DINOv2 checkpoints use other names than transformers and store query, key and value in one matrix.
OFFICIAL_NAMES = (
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^mask_token$", "embeddings.mask_token"),
    (r"^register_tokens$", "embeddings.register_tokens"),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^norm\.", "layernorm."),
    (r"^blocks\.(\d+)\.attn\.proj\.", r"encoder.layer.\1.attention.o_proj."),
    (r"^blocks\.(\d+)\.ls([12])\.gamma$", r"encoder.layer.\1.layer_scale\2.lambda1"),
    (r"^blocks\.(\d+)\.(norm[12]|mlp\.fc[12])\.", r"encoder.layer.\1.\2."),
)


def from_official(state: StateDict) -> StateDict:
    """Rename the keys of an official DINOv2 checkpoint to those of transformers; others are returned as is."""
    if "patch_embed.proj.weight" not in state:
        return state
    renamed: StateDict = {}
    for key, value in state.items():
        if match := re.match(r"^blocks\.(\d+)\.attn\.qkv\.(weight|bias)$", key):
            for projection, part in zip(("q_proj", "k_proj", "v_proj"), value.chunk(3), strict=True):
                renamed[f"encoder.layer.{match[1]}.attention.{projection}.{match[2]}"] = part.contiguous()
            continue
        renamed[rename(key, OFFICIAL_NAMES)] = value
    return renamed
