"""The selective scan and the refinement against their alternatives, on the same tensors in one run."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial

import torch

from mambamatcher.benchmark.contestants import OURS, Contestant, ScanTensors, aggregators, scans
from mambamatcher.benchmark.measurement import Circumstances, available_mib, circumstances, measure

GRIDS = (17, 30, 40, 50, 60)
FORWARD, BOTH = "forward", "forward + backward"
LOOP_TOKENS = 50_000  # beyond, the graph of the plain loop does not fit
SHORT_TOKENS = 2_000  # beyond, a loop that indexes takes minutes: each step's gradient fills the whole sequence

_LARGEST_BACKWARD = 30
_PATIENCE = 120.0  # seconds that a contestant may be expected to take, by its speed on the size before
_SHARE = 0.75  # of the free memory


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant on one size; without seconds, the reason why it did not run."""

    contestant: str
    what: str
    tokens: int
    seconds: float | None = None
    cpu_seconds: float | None = None
    times_ours: float | None = None  # seconds, against our bare scan on the same size
    cpu_times_ours: float | None = None
    extra_mib: float | None = None  # beyond the inputs, the output included
    tensors_mib: float | None = None  # inputs and output of the scan
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All rows of a run and its circumstances."""

    circumstances: Circumstances
    rows: list[Row]

    def as_dict(self) -> dict:
        """Return plain containers, for JSON."""
        return asdict(self)


@dataclass(slots=True)
class _Run:
    """What is known so far: the speed of each contestant, by which the next size is judged."""

    repeats: int
    pace: dict[tuple[str, str], float] = field(default_factory=dict)
    cpu_pace: dict[tuple[str, str], float] = field(default_factory=dict)

    def rows(self, what: str, tensors: ScanTensors, contestants: Iterator[Contestant]) -> Iterator[Row]:
        """Measure contestants, of which the first is our scan unless it was measured on this size before."""
        tokens, mib = tensors.u.shape[2], tensors.mib()
        for contestant in contestants:
            key = (contestant.name, what)
            expected = self.pace.get(key, 0.0) * tokens
            if obstacle := _obstacle(contestant, what, tokens, expected):
                yield Row(contestant.name, what, tokens, skipped=obstacle)
                continue
            slow = expected > 10 or "loop" in contestant.name or "slow" in contestant.name
            with torch.set_grad_enabled(what == BOTH):
                found = measure(partial(_once, contestant, what), 1 if slow else self.repeats, warm_up=not slow)
            self.pace[key], self.cpu_pace[key] = found.seconds / tokens, found.cpu_seconds / tokens
            ratios = (self.pace[key] / self.pace[OURS, what], self.cpu_pace[key] / self.cpu_pace[OURS, what])
            yield Row(contestant.name, what, tokens, found.seconds, found.cpu_seconds, *ratios, found.extra_mib, mib)


def benchmark_scan(grids: tuple[int, ...] = GRIDS, repeats: int = 5) -> Iterator[Row]:
    """Measure every contestant on every grid where it fits, smallest first; rows come as they are ready."""
    run = _Run(repeats)
    for grid in sorted(grids):
        # the scan's output and what it keeps are half as much again
        if 1.5 * (mib := ScanTensors.expected_mib(grid**4)) > _SHARE * available_mib():
            yield Row("all", FORWARD, grid**4, skipped=f"the inputs alone need {mib / 1024:.0f} GiB")
            continue
        tensors = ScanTensors.random(grid**4, differentiable=False)
        yield from run.rows(FORWARD, tensors, scans(tensors))
        yield from run.rows(FORWARD, tensors, aggregators(grid, differentiable=False))
    for tokens in (SHORT_TOKENS, LOOP_TOKENS):
        tensors = ScanTensors.random(tokens, differentiable=True)
        yield from run.rows(BOTH, tensors, scans(tensors))
    for grid in sorted(grid for grid in grids if grid <= _LARGEST_BACKWARD):
        tensors = ScanTensors.random(grid**4, differentiable=True)
        yield from run.rows(BOTH, tensors, scans(tensors))
        yield from run.rows(BOTH, tensors, aggregators(grid, differentiable=True))


def report(rows: list[Row]) -> Report:
    """Put the circumstances to the rows."""
    return Report(circumstances(), rows)


def _obstacle(contestant: Contestant, what: str, tokens: int, expected: float) -> str | None:
    if contestant.quadratic_gradient and what == BOTH and tokens > SHORT_TOKENS:
        return "its gradient takes time quadratic in the length"
    if contestant.mib > _SHARE * available_mib():
        return f"needs about {contestant.mib / 1024:.0f} GiB"
    return f"would take about {expected:.0f} s" if expected > _PATIENCE else None


def _once(contestant: Contestant, what: str) -> object:
    result = contestant.run()
    if what == FORWARD:
        return result
    return torch.autograd.grad(result, contestant.inputs, torch.ones_like(result))
