"""FastFormer: additive attention with a cost linear in the number of tokens."""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

Heads = Float[Tensor, "batch head position width"]


class AdditiveAttention(nn.Module):
    """Every token interacts with one global query and one global key instead of with every other token."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = head_width**-0.5
        self.to_query_key_value = nn.Linear(width, 3 * heads * head_width, bias=False)
        self.query_weight = nn.Linear(head_width, 1, bias=False)
        self.key_weight = nn.Linear(head_width, 1, bias=False)
        self.transform = nn.Linear(head_width, head_width)
        self.out = nn.Linear(heads * head_width, width)

    def _pool(self, weight: nn.Linear, heads: Heads) -> Float[Tensor, "batch head 1 width"]:
        """Return the sum of all tokens, weighted by the softmax of a learnt score."""
        attention = (weight(heads) * self.scale).softmax(dim=-2)
        return (attention * heads).sum(dim=-2, keepdim=True)

    def forward(self, tokens: Float[Tensor, "batch position channel"]) -> Float[Tensor, "batch position channel"]:
        """Mix all tokens through the global query and key."""
        query, key, value = (
            rearrange(x, "b n (head d) -> b head n d", head=self.heads)
            for x in self.to_query_key_value(tokens).chunk(3, dim=-1)
        )
        key = key * self._pool(self.query_weight, query)
        value = value * self._pool(self.key_weight, key)
        return self.out(rearrange(self.transform(value) + query, "b head n d -> b n (head d)"))


class FastFormerLayer(nn.Module):
    """Pre-norm additive attention and feed-forward layer, each with a residual connection."""

    def __init__(self, width: int, heads: int, head_width: int, hidden_ratio: int = 4) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), AdditiveAttention(width, heads, head_width))
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
