"""A trained row for evaluation: its frozen backbone's features come from the disk, where all rows share them."""

from jaxtyping import Float
from torch import Tensor

from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.training.cache import FeatureCache, cached_levels


class CachedMambaMatcher(MambaMatcher):
    """The same model, only that a picture which any row has seen does not go through the backbone again."""

    def __init__(self, model: MambaMatcher, cache: FeatureCache) -> None:
        super().__init__(model.config)
        self.load_state_dict(model.state_dict())
        self.cache = cache

    def extract(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch level channel h w"]:
        """Look the backbone's levels up, then combine them."""
        return self.backbone.combine(cached_levels(self.backbone, images, self.cache), self.backbone.grid(images))
