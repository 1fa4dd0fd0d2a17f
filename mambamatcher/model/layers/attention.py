"""A transformer block for self-attention and cross-attention."""

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn


class AttentionBlock(nn.Module):
    """Pre-norm attention and feed-forward layer, each with a residual connection.

    Args:
        width: Channels of a token.
        heads: Attention heads.
        hidden_ratio: Hidden channels of the feed-forward layer per channel of a token.
        cross: Whether the context has a norm of its own. Without it, the block is for self-attention only.
    """

    def __init__(self, width: int, heads: int, hidden_ratio: int = 4, cross: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.norm_tokens = nn.LayerNorm(width)
        self.norm_context = nn.LayerNorm(width) if cross else None
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, hidden_ratio * width),
            nn.GELU(),
            nn.Linear(hidden_ratio * width, width),
        )

    def forward(
        self, tokens: Float[Tensor, "batch position width"], context: Float[Tensor, "batch other width"]
    ) -> Float[Tensor, "batch position width"]:
        """Attend from the tokens to the context; pass the tokens as context for self-attention."""
        seen = self.norm_tokens(tokens)
        query = self.query(seen)
        key, value = self.key_value(seen if self.norm_context is None else self.norm_context(context)).chunk(2, dim=-1)
        query, key, value = (rearrange(x, "b n (head d) -> b head n d", head=self.heads) for x in (query, key, value))
        attended = F.scaled_dot_product_attention(query, key, value)
        tokens = tokens + self.out(rearrange(attended, "b head n d -> b n (head d)"))
        return tokens + self.feed_forward(tokens)
