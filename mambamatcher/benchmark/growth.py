"""How time grows with the number of tokens: short sequences and a long one, measured alternately."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median

import torch

from mambamatcher.benchmark.contestants import Contestant, ScanTensors, aggregators, scans
from mambamatcher.benchmark.measurement import circumstances


@dataclass(frozen=True, slots=True)
class Growth:
    """Time of one implementation on two grids.

    Attributes:
        contestant: Name of the implementation.
        small: Side of the small grid.
        large: Side of the large grid.
        small_seconds: Time for as many tokens on the small grid as the large one has, in each turn.
        large_seconds: Time of one run on the large grid, in each turn.
    """

    contestant: str
    small: int
    large: int
    small_seconds: list[float]
    large_seconds: list[float]

    @property
    def times(self) -> float:
        """Ratio of the times of one run on each grid, as the median over the turns."""
        share = (self.large / self.small) ** 4
        return share * median(
            large / small for small, large in zip(self.small_seconds, self.large_seconds, strict=True)
        )

    def as_line(self) -> str:
        """Return the result as a line of text."""
        tokens = (self.large / self.small) ** 4
        return (
            f"{self.contestant}: {self.large}^4 takes {self.times:.1f} times as long as {self.small}^4 and has "
            f"{tokens:.1f} times as many tokens ({median(self.large_seconds):.2f} s)"
        )


def benchmark_growth(small: int, large: int, turns: int) -> Iterator[Growth]:
    """Measure the bare scan and the whole refinement.

    The two sizes alternate in turns of about equal length, so that other load on the machine affects both alike. Each
    is run once right before it is timed, because memory freed earlier may have gone back to a virtual machine's host.
    """
    for contestants in (_scan, _refinement):
        few, many = contestants(small), contestants(large)
        runs = round((large / small) ** 4)
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(turns):
            seconds[0].append(_seconds(few.run, runs) * (large / small) ** 4 / runs)
            seconds[1].append(_seconds(many.run, 1))
        yield Growth(few.name, small, large, *seconds)


def as_dict(rows: list[Growth]) -> dict:
    """Return plain containers, for JSON."""
    return {"circumstances": asdict(circumstances()), "rows": [asdict(row) | {"times": row.times} for row in rows]}


def _seconds(function: Callable[[], object], runs: int) -> float:
    with torch.inference_mode():
        function()
        started = time.perf_counter()
        for _ in range(runs):
            function()
    return time.perf_counter() - started


def _scan(grid: int) -> Contestant:
    return next(scans(ScanTensors.random(grid**4, differentiable=False)))


def _refinement(grid: int) -> Contestant:
    return next(aggregators(grid, differentiable=False))
