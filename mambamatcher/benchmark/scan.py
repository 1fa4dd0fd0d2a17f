"""Compare the selective scan and the refinement with alternatives, on the same tensors in one run."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial

import torch

from mambamatcher.benchmark.contestants import OURS, Contestant, ScanTensors, aggregators, scans
from mambamatcher.benchmark.measurement import Circumstances, available_mib, measure

GRIDS = (17, 30, 40, 50, 60)
FORWARD, BOTH = "forward", "forward + backward"
LOOP_TOKENS = 50_000  # beyond this, the graph of the plain loop does not fit in memory
SHORT_TOKENS = 2_000  # beyond this, a loop that indexes takes minutes: each step's gradient has the whole length

_LARGEST_BACKWARD = 30
_MOST_SECONDS = 120.0  # skip a contestant that would take longer, judged by the next smaller size
_MEMORY_SHARE = 0.75  # of the available memory


@dataclass(frozen=True, slots=True)
class ContestantTime:
    """Time and memory of one contestant at one size.

    Attributes:
        contestant: Name of the implementation.
        what: `FORWARD` or `BOTH`.
        tokens: Length of the sequence.
        seconds: Wall-clock time. `None` if it did not run.
        cpu_seconds: Processor time of all threads.
        times_ours: Wall-clock time relative to our bare scan at the same size.
        cpu_times_ours: Processor time relative to our bare scan at the same size.
        extra_mib: Peak memory beyond the inputs, including the output.
        tensors_mib: Memory of the inputs and the output of the scan.
        skipped: Why it did not run.
    """

    contestant: str
    what: str
    tokens: int
    seconds: float | None = None
    cpu_seconds: float | None = None
    times_ours: float | None = None
    cpu_times_ours: float | None = None
    extra_mib: float | None = None
    tensors_mib: float | None = None
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class ScanBenchmark:
    """All results of a run."""

    circumstances: Circumstances
    rows: list[ContestantTime]

    def as_dict(self) -> dict:
        """Return plain containers, for JSON."""
        return asdict(self)


@dataclass(slots=True)
class _Run:
    """Seconds per token of each contestant so far, to estimate the next size."""

    repeats: int
    pace: dict[tuple[str, str], float] = field(default_factory=dict)
    cpu_pace: dict[tuple[str, str], float] = field(default_factory=dict)

    def rows(self, what: str, tensors: ScanTensors, contestants: Iterator[Contestant]) -> Iterator[ContestantTime]:
        """Measure contestants. Our scan must come first, unless it was already measured at this size."""
        tokens, mib = tensors.u.shape[2], tensors.mib()
        for contestant in contestants:
            key = (contestant.name, what)
            expected = self.pace.get(key, 0.0) * tokens
            if obstacle := _obstacle(contestant, what, tokens, expected):
                yield ContestantTime(contestant.name, what, tokens, skipped=obstacle)
                continue
            slow = expected > 10 or "loop" in contestant.name or "slow" in contestant.name
            with torch.set_grad_enabled(what == BOTH):
                found = measure(partial(_once, contestant, what), 1 if slow else self.repeats, warm_up=not slow)
            self.pace[key], self.cpu_pace[key] = found.seconds / tokens, found.cpu_seconds / tokens
            ratios = (self.pace[key] / self.pace[OURS, what], self.cpu_pace[key] / self.cpu_pace[OURS, what])
            yield ContestantTime(
                contestant.name, what, tokens, found.seconds, found.cpu_seconds, *ratios, found.extra_mib, mib
            )


def benchmark_scan(grids: tuple[int, ...] = GRIDS, repeats: int = 5) -> Iterator[ContestantTime]:
    """Measure every contestant on every grid where it fits in memory, smallest first."""
    run = _Run(repeats)
    for grid in sorted(grids):
        # the output of the scan and its intermediate results take half as much again
        if 1.5 * (mib := ScanTensors.expected_mib(grid**4)) > _MEMORY_SHARE * available_mib():
            yield ContestantTime("all", FORWARD, grid**4, skipped=f"the inputs alone need {mib / 1024:.0f} GiB")
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


def _obstacle(contestant: Contestant, what: str, tokens: int, expected: float) -> str | None:
    if contestant.quadratic_gradient and what == BOTH and tokens > SHORT_TOKENS:
        return "its gradient takes time quadratic in the length"
    if contestant.mib > _MEMORY_SHARE * available_mib():
        return f"needs about {contestant.mib / 1024:.0f} GiB"
    return f"would take about {expected:.0f} s" if expected > _MOST_SECONDS else None


def _once(contestant: Contestant, what: str) -> object:
    result = contestant.run()
    if what == FORWARD:
        return result
    return torch.autograd.grad(result, contestant.inputs, torch.ones_like(result))
