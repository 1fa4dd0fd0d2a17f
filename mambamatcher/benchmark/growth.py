"""How time grows with the number of tokens: many short sequences against one long one, in turns."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median

import torch

from mambamatcher.benchmark.contestants import Contestant, ScanTensors, aggregators, scans
from mambamatcher.benchmark.measurement import Circumstances, circumstances


@dataclass(frozen=True, slots=True)
class Growth:
    """Seconds of as many runs on the small grid as hold the tokens of the large one, and of one run on the large."""

    contestant: str
    small: int
    large: int
    small_seconds: list[float]
    large_seconds: list[float]

    @property
    def times(self) -> float:
        """How much longer the large grid takes than the small one: the median over the turns."""
        share = (self.large / self.small) ** 4
        return share * median(
            large / small for small, large in zip(self.small_seconds, self.large_seconds, strict=True)
        )

    def as_line(self) -> str:
        """Say it in a line."""
        tokens = (self.large / self.small) ** 4
        return (
            f"{self.contestant}: {self.large}^4 takes {self.times:.1f} times as long as {self.small}^4, "
            f"which has {tokens:.1f} times fewer tokens ({median(self.large_seconds):.2f} s)"
        )


def benchmark_growth(small: int, large: int, turns: int) -> Iterator[Growth]:
    """Measure the bare scan and the whole refinement.

    The two sizes take turns of about equal length, so whatever else the machine does falls on both alike. Each is run
    once right before it is timed: memory freed a while ago may have gone back to the host of a virtual machine.
    """
    for contestants in (_scan, _refinement):
        few, many = contestants(small), contestants(large)
        runs = round((large / small) ** 4)
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(turns):
            seconds[0].append(_seconds(few.run, runs) * (large / small) ** 4 / runs)
            seconds[1].append(_seconds(many.run, 1))
        yield Growth(few.name, small, large, *seconds)


def report(rows: list[Growth]) -> dict:
    """Return plain containers, for JSON."""
    found: Circumstances = circumstances()
    return {"circumstances": asdict(found), "rows": [asdict(row) | {"times": row.times} for row in rows]}


def _seconds(function: Callable[[], object], runs: int) -> float:
    with torch.inference_mode():
        function()
        start = time.perf_counter()
        for _ in range(runs):
            function()
    return time.perf_counter() - start


def _scan(grid: int) -> Contestant:
    return next(scans(ScanTensors.random(grid**4, differentiable=False)))


def _refinement(grid: int) -> Contestant:
    return next(aggregators(grid, differentiable=False))
