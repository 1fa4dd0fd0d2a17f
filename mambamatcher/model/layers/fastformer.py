"""FastFormer's additive attention as in TransforMatcher, with a cost linear in the number of tokens."""

import torch
from einops import rearrange, reduce
from jaxtyping import Float
from torch import Tensor, nn

Heads = Float[Tensor, "batch head position width"]


class AdditiveAttention(nn.Module):
    """Every token interacts with one global query and one global key instead of with every other token.

    With `rotary`, queries and keys are rotated by their position before they are pooled, and adjacent channels of the
    products are summed, which halves the width that the key's score and the value's transform see.
    """

    def __init__(self, width: int, heads: int, head_width: int, rotary: bool) -> None:
        super().__init__()
        self.heads = heads
        self.rotary = rotary
        self.scale = head_width**-0.5
        product_width = head_width // 2 if rotary else head_width
        self.to_query_key_value = nn.Linear(width, 3 * heads * head_width, bias=False)
        self.query_weight = nn.Linear(head_width, 1, bias=False)
        self.key_weight = nn.Linear(product_width, 1, bias=False)
        self.transform = nn.Linear(product_width, head_width)
        self.out = nn.Linear(heads * head_width, width)

    def forward(self, tokens: Float[Tensor, "batch position channel"]) -> Float[Tensor, "batch position channel"]:
        """Mix all tokens through the global query and key."""
        query, key, value = (
            rearrange(x, "b n (head d) -> b head n d", head=self.heads)
            for x in self.to_query_key_value(tokens).chunk(3, dim=-1)
        )
        turned_query, turned_key = (rotate(query), rotate(key)) if self.rotary else (query, key)
        global_query = self._pool(self.query_weight(query), turned_query)
        global_key = self._pool(self.key_weight(self._product(key, global_query)), turned_key)
        mixed = self.transform(self._product(value, global_key)) + query
        return self.out(rearrange(mixed, "b head n d -> b n (head d)"))

    def _pool(self, score: Float[Tensor, "batch head position 1"], heads: Heads) -> Float[Tensor, "batch head 1 width"]:
        """Return the sum of all tokens, weighted by the softmax of their scores."""
        return ((score * self.scale).softmax(dim=-2) * heads).sum(dim=-2, keepdim=True)

    def _product(
        self, heads: Heads, pooled: Float[Tensor, "batch head 1 width"]
    ) -> Float[Tensor, "batch head position product_width"]:
        product = heads * pooled
        return reduce(product, "b head n (d pair) -> b head n d", "sum", pair=2) if self.rotary else product


def rotate(heads: Heads) -> Heads:
    """Rotate each pair of adjacent channels by the token's position times the pair's frequency, from π to 5π.

    These are the "pixel" frequencies of TransforMatcher, applied like there to the position in the flattened map. At
    its head width of 4 they are π and 5π, so all that is left of a rotation is the sign (-1)^position.
    """
    position = torch.arange(heads.shape[2], dtype=torch.float64, device=heads.device)
    half_turns = torch.linspace(1, 5, heads.shape[3] // 2, dtype=torch.float64, device=heads.device)
    # Whole turns are removed in float64: at 30^4 positions float32 would leave angles without a correct digit.
    angle = torch.pi * (position[:, None] * half_turns % 2)
    cos, sin = angle.cos().to(heads.dtype), angle.sin().to(heads.dtype)
    first, second = heads[..., 0::2], heads[..., 1::2]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)


class FastFormerLayer(nn.Module):
    """Pre-norm additive attention and feed-forward layer, each with a residual connection."""

    def __init__(self, width: int, heads: int, head_width: int, rotary: bool, hidden_ratio: int = 4) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), AdditiveAttention(width, heads, head_width, rotary))
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, hidden_ratio * width),
            nn.GELU(),
            nn.Linear(hidden_ratio * width, width),
        )

    def forward(self, tokens: Float[Tensor, "batch position channel"]) -> Float[Tensor, "batch position channel"]:
        """Apply attention, then the feed-forward layer."""
        tokens = tokens + self.attention(tokens)
        return tokens + self.feed_forward(tokens)
