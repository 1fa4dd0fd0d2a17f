"""An independent float64 implementation of the scan, which shares no code with the package, and test inputs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

NAMES = ("u", "delta", "A", "B", "C", "D", "z", "delta_bias")


@dataclass(frozen=True)
class Case:
    batch: int = 2
    dim: int = 12
    length: int = 150  # more than two tiles, and no multiple of a tile
    state: int = 5
    B: str = "shared"
    C: str = "shared"
    options: bool = True  # D, z and delta_bias
    softplus: bool = True
    discretization: str = "euler"

    def __str__(self) -> str:
        flags = [name for name in ("options", "softplus") if getattr(self, name)]
        sizes = f"{self.batch}x{self.dim}x{self.length}x{self.state}"
        return "-".join([f"B_{self.B}", f"C_{self.C}", self.discretization, *flags, sizes])

    def make(self, seed: int = 0) -> dict[str, Tensor | None]:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator)

        sequence = (self.batch, self.dim, self.length)
        projections = {
            "constant": (self.dim, self.state),
            "shared": (self.batch, self.state, self.length),
            "two groups": (self.batch, 2, self.state, self.length),
            "three groups": (self.batch, 3, self.state, self.length),
        }
        inputs = {
            "u": normal(*sequence),
            "delta": normal(*sequence) - 1 if self.softplus else 0.3 * normal(*sequence).abs(),
            "A": -0.1 - 2 * normal(self.dim, self.state).abs(),
            "B": normal(*projections[self.B]),
            "C": normal(*projections[self.C]),
        }
        extra = {"D": normal(self.dim), "z": normal(*sequence), "delta_bias": 0.3 * normal(self.dim).abs()}
        return inputs | (extra if self.options else dict.fromkeys(extra))

    def arguments(self) -> dict:
        return {"delta_softplus": self.softplus, "discretization": self.discretization}


LAYOUTS = [
    Case(B=B, C=C, discretization=discretization)
    for discretization in ("euler", "zoh")
    for B in ("constant", "shared", "three groups")
    for C in ("constant", "shared", "two groups")
]
OPTIONS = [
    Case(options=options, softplus=softplus, discretization=discretization)
    for options in (False, True)
    for softplus in (False, True)
    for discretization in ("euler", "zoh")
]
SIZES = [
    replace(Case(), batch=batch, dim=dim, length=length, state=state)
    for batch, dim, length, state in ((1, 1, 1, 1), (3, 8, 64, 16), (1, 48, 65, 3), (2, 17, 129, 2))
]
CASES = list(dict.fromkeys(LAYOUTS + OPTIONS + SIZES))


def scan(inputs: dict[str, Tensor | None], delta_softplus: bool, discretization: str) -> tuple[Tensor, Tensor]:
    """Run the scan step by step, as its equations say."""
    u, delta, A, B, C, D, z, bias = (inputs[name] for name in NAMES)
    delta = delta if bias is None else delta + bias[None, :, None]
    delta = (1 + delta.exp()).log() if delta_softplus else delta
    h, outputs = 0 * A[None].repeat(len(u), 1, 1), []
    for t in range(u.shape[2]):
        decay = torch.einsum("bd,dn->bdn", delta[:, :, t], A).exp()
        held = delta[:, :, t, None] if discretization == "euler" else (decay - 1) / A
        h = decay * h + held * _at(B, t, u.shape[1]) * u[:, :, t, None]
        y = (h * _at(C, t, u.shape[1])).sum(2)
        y = y if D is None else y + D * u[:, :, t]
        outputs.append(y if z is None else y * z[:, :, t] / (1 + (-z[:, :, t]).exp()))
    return torch.stack(outputs, dim=2), h


def _at(projection: Tensor, t: int, dim: int) -> Tensor:
    """Return B or C of every channel at one step."""
    if projection.ndim == 2:
        return projection[None]
    if projection.ndim == 3:
        return projection[:, None, :, t]
    groups = projection.shape[1]
    return torch.stack([projection[:, channel * groups // dim, :, t] for channel in range(dim)], dim=1)


@cache
def expected(case: Case) -> dict[str, Tensor]:
    """Return outputs, last state and gradients of `loss` in float64."""
    inputs = {name: tensor if tensor is None else tensor.double() for name, tensor in case.make().items()}
    return differentiate(inputs, lambda leaves: scan(leaves, **case.arguments()))


def differentiate(inputs: dict[str, Tensor | None], run: Callable) -> dict[str, Tensor]:
    """Run a scan and return its outputs, last state, and the gradients of `loss` for every input."""
    leaves = {name: tensor if tensor is None else tensor.detach().requires_grad_() for name, tensor in inputs.items()}
    y, last_state = run(leaves)
    loss(y, last_state).backward()
    gradients = {f"gradient of {name}": leaf.grad for name, leaf in leaves.items() if leaf is not None}
    return {"output": y.detach(), "last state": last_state.detach(), **gradients}


def loss(y: Tensor, last_state: Tensor) -> Tensor:
    """Return a sum with a different weight for every entry, so that errors do not cancel."""
    weights = (torch.linspace(-1, 2, t.numel(), dtype=t.dtype).reshape(t.shape).cos() for t in (y, last_state))
    return sum((tensor * weight).sum() for tensor, weight in zip((y, last_state), weights, strict=True))


def assert_same(actual: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    """Compare with a tolerance relative to the largest entry of each tensor."""
    assert actual.keys() == wanted.keys()
    for name, tensor in wanted.items():
        error, scale = (actual[name].double() - tensor).abs().max(), tensor.abs().max()
        assert error <= tolerance * scale, f"{name}: error {error:.1e} where the largest entry is {scale:.1e}"
