"""FastFormer's additive attention as in TransforMatcher, with a cost linear in the number of tokens."""

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

Tokens = Float[Tensor, "batch position channel"]
Projection = Float[Tensor, "head width channel"]
Pooled = Float[Tensor, "batch head width"]
Rotation = Float[Tensor, "2 pair position"]


class AdditiveAttention(nn.Module):
    """Every token interacts with one global query and one global key instead of with every other token.

    With `rotary`, queries and keys are rotated by their position before they are pooled, and adjacent channels of the
    products are summed, which halves the width that the key's score and the value's transform see.

    All but the two softmaxes is linear in the tokens. So the small matrices are multiplied first, and the queries, keys
    and values of tokens, together six times as wide as the tokens, are never computed.
    """

    def __init__(self, width: int, heads: int, head_width: int, rotary: bool) -> None:
        super().__init__()
        self.heads = heads
        self.rotary = rotary
        self.scale = head_width**-0.5
        self.summed = 2 if rotary else 1  # adjacent channels of which products are summed
        product_width = head_width // self.summed
        self.to_query_key_value = nn.Linear(width, 3 * heads * head_width, bias=False)
        self.query_weight = nn.Linear(head_width, 1, bias=False)
        self.key_weight = nn.Linear(product_width, 1, bias=False)
        self.transform = nn.Linear(product_width, head_width)
        self.out = nn.Linear(heads * head_width, width)

    def forward(self, tokens: Tokens) -> Tokens:
        """Mix all tokens through the global query and key."""
        query, key, value = rearrange(
            self.to_query_key_value.weight, "(part head d) c -> part head d c", part=3, head=self.heads
        )
        rotation = rotation_of(tokens.shape[1], query.shape[1], tokens) if self.rotary else None
        query_weight = repeat(self.query_weight.weight @ query, "head 1 c -> b head c", b=len(tokens))
        global_query = self._pool(tokens, query_weight, query, rotation)
        key_weight = global_query * self.key_weight.weight.repeat_interleave(self.summed, dim=1)
        global_key = self._pool(tokens, einsum(key_weight, key, "b head d, head d c -> b head c"), key, rotation)
        transform = self.transform.weight.repeat_interleave(self.summed, dim=1) * global_key[:, :, None]
        mixed = transform @ value + query
        out = rearrange(self.out.weight, "c (head d) -> head c d", head=self.heads)
        return tokens @ (out @ mixed).sum(dim=1).mT + (out @ self.transform.bias).sum(dim=0) + self.out.bias

    def _pool(
        self,
        tokens: Tokens,
        score: Float[Tensor, "batch head channel"],
        projection: Projection,
        rotation: Rotation | None,
    ) -> Pooled:
        """Return the sum of all projected and rotated tokens, weighted by the softmax of their scores."""
        weights = (self.scale * (score @ tokens.mT)).softmax(dim=-1)
        if rotation is None:
            return einsum(weights @ tokens, projection, "b head c, head d c -> b head d")
        turned = rearrange(weights, "b head n -> b 1 head 1 n") * rearrange(rotation, "part pair n -> part 1 pair n")
        cos, sin = (turned.flatten(1, 3) @ tokens).unflatten(1, turned.shape[1:4]).unbind(1)
        first, second = projection[:, 0::2], projection[:, 1::2]
        pooled = torch.stack([cos * first - sin * second, cos * second + sin * first], dim=-2)
        return rearrange(pooled.sum(dim=-1), "b head pair two -> b head (pair two)")


def rotation_of(positions: int, width: int, like: Tensor) -> Rotation:
    """Return cosine and sine of the angle of each pair of adjacent channels: position times a frequency from π to 5π.

    These are the "pixel" frequencies of TransforMatcher, applied like there to the position in the flattened map. At
    its head width of 4 they are π and 5π, so all that is left of a rotation is the sign (-1)^position.
    """
    position = torch.arange(positions, dtype=torch.float64, device=like.device)
    half_turns = torch.linspace(1, 5, width // 2, dtype=torch.float64, device=like.device)
    # Whole turns are removed in float64: at 30^4 positions float32 would leave angles without a correct digit.
    angle = torch.pi * (half_turns[:, None] * position % 2)
    return torch.stack([angle.cos(), angle.sin()]).to(like.dtype)


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

    def forward(self, tokens: Tokens) -> Tokens:
        """Apply attention, then the feed-forward layer."""
        tokens = tokens + self.attention(tokens)
        return tokens + self.feed_forward(tokens)
