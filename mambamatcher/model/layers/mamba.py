"""The Mamba block: a gated, input-dependent state-space model along one sequence (Sec. 3)."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from mambamatcher.model.config import check_bounds
from mambamatcher.ops.selective_scan import DISCRETIZATIONS, selective_scan
from mambamatcher.registry import unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class MambaSettings:
    """Sizes of a Mamba block, named after mamba_ssm's arguments.

    Attributes:
        state: Size of the state per channel (`d_state`).
        conv: Kernel size of the causal convolution (`d_conv`).
        expand: Inner channels per input channel (`expand`).
        rank: Rank of the projection to Δ (`dt_rank`); None means width / 16, rounded up.
        discretization: How A and B become discrete: "euler" as in mamba_ssm, or "zoh" as printed in the papers.
    """

    state: int = 16
    conv: int = 4
    expand: int = 2
    rank: int | None = None
    discretization: str = "euler"

    def __post_init__(self) -> None:
        check_bounds("mamba", self, state=(1, 256), conv=(1, 64), expand=(1, 16), rank=(1, 1024))
        if self.discretization not in DISCRETIZATIONS:
            raise unknown("discretization", self.discretization, DISCRETIZATIONS)


class Mamba(nn.Module):
    """One Mamba block. Parameters have the names and shapes of mamba_ssm, so its checkpoints load.

    Args:
        width: Channels of the input and of the output.
        settings: Sizes of the block.
        directions: Number of scan directions for PlainMamba's direction-aware update, which adds a learnt vector for
            the direction of each step to B. 0 disables it.
    """

    def __init__(self, width: int, settings: MambaSettings, directions: int = 0) -> None:
        super().__init__()
        inner = settings.expand * width
        self.rank = settings.rank or math.ceil(width / 16)
        self.state = settings.state
        self.discretization = settings.discretization
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, settings.conv, groups=inner, padding=settings.conv - 1)
        self.x_proj = nn.Linear(inner, self.rank + 2 * settings.state, bias=False)
        self.dt_proj = nn.Linear(self.rank, inner)
        self.A_log = nn.Parameter(torch.empty(inner, settings.state))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        self.direction_B = nn.Parameter(torch.zeros(directions, settings.state)) if directions else None
        if not self.A_log.is_meta:  # initialising meta tensors does nothing but imports the compiler
            self._initialise()

    def _initialise(self) -> None:
        with torch.no_grad():
            self.A_log.copy_(torch.arange(1.0, self.state + 1).log())
        self._initialise_delta()

    def _initialise_delta(self, low: float = 1e-3, high: float = 1e-1) -> None:
        """Initialise the bias so that Δ after the softplus is log-uniform in [low, high], as in mamba_ssm."""
        bound = self.rank**-0.5
        nn.init.uniform_(self.dt_proj.weight, -bound, bound)
        delta = torch.empty_like(self.dt_proj.bias).uniform_(math.log(low), math.log(high)).exp()
        with torch.no_grad():
            self.dt_proj.bias.copy_(delta + torch.log(-torch.expm1(-delta)))

    def forward(self, sequence: Float[Tensor, "batch position width"]) -> Float[Tensor, "batch position width"]:
        """Scan the sequence from the first position to the last."""
        inner, gate = self.in_proj(sequence).chunk(2, dim=-1)
        return self.out_proj(self.scan(inner, gate))

    def scan(
        self,
        inner: Float[Tensor, "batch position inner"],
        gate: Float[Tensor, "batch position inner"] | None,
        direction: Int[Tensor, " position"] | None = None,
    ) -> Float[Tensor, "batch position inner"]:
        """Apply the causal convolution and the scan: everything between the input and the output projection.

        Args:
            inner: Projected sequence.
            gate: Projected gate; None returns the ungated output.
            direction: Index of each position's direction, for direction-aware blocks.
        """
        length = inner.shape[1]
        u = F.silu(self.conv1d(rearrange(inner, "b l d -> b d l"))[..., :length])
        delta, B, C = self.x_proj(rearrange(u, "b d l -> b l d")).split([self.rank, self.state, self.state], dim=-1)
        if self.direction_B is not None and direction is not None:
            B = B + self.direction_B[direction]
        y = selective_scan(
            u,
            rearrange(delta @ self.dt_proj.weight.T, "b l d -> b d l"),
            -torch.exp(self.A_log.float()),
            rearrange(B, "b l n -> b n l"),
            rearrange(C, "b l n -> b n l"),
            self.D.float(),
            z=None if gate is None else rearrange(gate, "b l d -> b d l"),
            delta_bias=self.dt_proj.bias.float(),
            delta_softplus=True,
            discretization=self.discretization,
        )
        assert isinstance(y, Tensor)  # without return_last_state there is no tuple
        return rearrange(y, "b d l -> b l d")
