"""The Mamba block: a gated, input-dependent state-space model along one sequence (Sec. 3)."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds
from mambamatcher.ops.selective_scan import DISCRETIZATIONS, selective_scan
from mambamatcher.registry import unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class MambaSettings:
    """Sizes of a Mamba block, named after mamba_ssm's arguments.

    Attributes:
        state: Size of the state per channel (`d_state`). 0 leaves the gated network without its scan: with `conv` of 1
            it treats every position alone, a control experiment for the scan.
        conv: Kernel size of the causal convolution (`d_conv`).
        expand: Inner channels per input channel (`expand`).
        rank: Rank of the projection to Δ (`dt_rank`); None means width / 16, rounded up.
        discretization: How A and B become discrete: "euler" as in mamba_ssm, or "zoh" as printed in the papers.
        delta: Range in which Δ starts, log-uniformly. The defaults are mamba_ssm's, for sequences of thousands; the
            state of a channel remembers about 1 / Δ positions.
    """

    state: int = 16
    conv: int = 4
    expand: int = 2
    rank: int | None = None
    discretization: str = "euler"
    delta: tuple[float, ...] = (1e-3, 1e-1)

    def __post_init__(self) -> None:
        check_bounds("mamba", self, state=(0, 256), conv=(1, 64), expand=(1, 16), rank=(1, 1024))
        if len(self.delta) != 2 or not 0 < self.delta[0] < self.delta[1] <= 1:
            raise ConfigError(f"mamba.delta must be two rising numbers above 0 and up to 1, got {list(self.delta)}")
        if self.discretization not in DISCRETIZATIONS:
            raise unknown("discretization", self.discretization, DISCRETIZATIONS)


class SelectiveBlock(nn.Module):
    """What Mamba and PlainMamba share: projections and the selective scan. They differ in the convolution before it.

    Parameters have the names and shapes of mamba_ssm, so its checkpoints load.

    Args:
        width: Channels of the input and of the output.
        settings: Sizes of the block.
    """

    def __init__(self, width: int, settings: MambaSettings) -> None:
        super().__init__()
        inner = settings.expand * width
        self.rank = settings.rank or math.ceil(width / 16)
        self.state = settings.state
        self.discretization = settings.discretization
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.add_convolution(inner, settings)
        if self.state:
            self.x_proj = nn.Linear(inner, self.rank + 2 * settings.state, bias=False)
            self.dt_proj = nn.Linear(self.rank, inner)
            self.A_log = nn.Parameter(torch.empty(inner, settings.state))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        if self.state and not self.D.is_meta:  # initialising meta tensors does nothing but imports the compiler
            self._initialise(*settings.delta)

    def add_convolution(self, inner: int, settings: MambaSettings) -> None:
        """Create the convolution of the inner channels."""
        raise NotImplementedError

    def _initialise(self, low: float, high: float) -> None:
        """Initialise A as mamba_ssm does, and the bias so that Δ after the softplus is log-uniform in [low, high]."""
        with torch.no_grad():
            self.A_log.copy_(torch.arange(1.0, self.state + 1).log())
        bound = self.rank**-0.5
        nn.init.uniform_(self.dt_proj.weight, -bound, bound)
        delta = torch.empty_like(self.dt_proj.bias).uniform_(math.log(low), math.log(high)).exp()
        with torch.no_grad():
            self.dt_proj.bias.copy_(delta + torch.log(-torch.expm1(-delta)))

    def scan(
        self,
        u: Float[Tensor, "batch inner position"],
        gate: Float[Tensor, "batch inner position"] | None = None,
        added_B: Float[Tensor, "state position"] | None = None,
        steering: Float[Tensor, "batch position parameter"] | None = None,
    ) -> Float[Tensor, "batch inner position"]:
        """Scan the convolved channels, with Δ, B and C computed from them.

        Args:
            u: Inner channels after the convolution and its activation.
            gate: Projected gate; None returns the ungated output.
            added_B: Added to B at each position.
            steering: Added to the projections to Δ, B and C at each position.
        """
        if not self.state:
            passed = u * self.D[:, None]
            return passed if gate is None else passed * F.silu(gate)
        parameters = self.x_proj(rearrange(u, "b d l -> b l d"))
        if steering is not None:
            parameters = parameters + steering
        delta, B, C = parameters.split([self.rank, self.state, self.state], dim=-1)
        B = rearrange(B, "b l n -> b n l")
        y = selective_scan(
            u,
            rearrange(delta @ self.dt_proj.weight.T, "b l d -> b d l"),
            -torch.exp(self.A_log.float()),
            B if added_B is None else B + added_B,
            rearrange(C, "b l n -> b n l"),
            self.D.float(),
            z=gate,
            delta_bias=self.dt_proj.bias.float(),
            delta_softplus=True,
            discretization=self.discretization,
        )
        assert isinstance(y, Tensor)  # without return_last_state there is no tuple
        return y


class Mamba(SelectiveBlock):
    """One Mamba block: a causal convolution and a scan along one sequence."""

    conv1d: nn.Conv1d

    def add_convolution(self, inner: int, settings: MambaSettings) -> None:
        """Create the causal convolution."""
        self.conv1d = nn.Conv1d(inner, inner, settings.conv, groups=inner, padding=settings.conv - 1)

    def forward(
        self,
        sequence: Float[Tensor, "batch position width"],
        steering: Float[Tensor, "batch position parameter"] | None = None,
    ) -> Float[Tensor, "batch position width"]:
        """Scan the sequence from the first position to the last; see `scan` for `steering`."""
        inner, gate = self.in_proj(sequence).chunk(2, dim=-1)
        u = F.silu(self._convolve(inner))
        # channels stay innermost in memory, as the kernels read them and the products need them
        y = self.scan(u.transpose(1, 2), gate.transpose(1, 2), steering=steering)
        return self.out_proj(y.transpose(1, 2))

    def _convolve(self, inner: Float[Tensor, "batch position inner"]) -> Float[Tensor, "batch position inner"]:
        """Apply the causal convolution with channels last, where nn.Conv1d would transpose twice."""
        length, taps = inner.shape[1], self.conv1d.weight.squeeze(1).T
        padded = F.pad(inner, (0, 0, len(taps) - 1, 0))
        bias = self.conv1d.bias
        assert bias is not None
        return sum((tap * padded[:, offset : offset + length] for offset, tap in enumerate(taps)), start=bias)
