"""One source against many targets: what keeping features saves, and what the bookkeeping costs."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from mambamatcher.benchmark.measurement import Circumstances, circumstances
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.mambamatcher import MambaMatcher

POINTS = np.array([[1.0, 1.0]])
FEW = 3  # pairs that are matched without a cache; the rest is reckoned from them
PASSES = ("describe", "compare")


@dataclass(frozen=True, slots=True)
class Report:
    """Seconds for one source and a number of targets."""

    circumstances: Circumstances
    preset: str
    side: int
    targets: int
    gallery_seconds: float  # `match_many`, nothing cached before
    passes: dict[str, int]  # how often it described an image and compared a pair
    passes_seconds: float  # how much of its time they took
    second_source_seconds: float  # another source, the targets' features in memory
    uncached_seconds: float  # pair by pair without a cache

    @property
    def overhead(self) -> float:
        """How much longer the gallery takes than its passes through the model."""
        return self.gallery_seconds / self.passes_seconds - 1

    def as_dict(self) -> dict:
        """Return plain containers, for JSON."""
        return asdict(self) | {"overhead": self.overhead}

    def as_text(self) -> str:
        """Write the figures as lines."""
        rows = (
            ("nothing cached before", self.gallery_seconds),
            ("another source, targets in memory", self.second_source_seconds),
            ("pair by pair, no cache", self.uncached_seconds),
        )
        lines = [
            f"{self.preset} at {self.side} px, 1 source x {self.targets} targets: described {self.passes['describe']} "
            f"images and compared {self.passes['compare']} pairs, {100 * self.overhead:+.1f} % besides"
        ]
        lines += [f"  {name:34} {seconds:8.2f} s, {seconds / self.targets:.3f} s a target" for name, seconds in rows]
        return "\n".join(lines)


def benchmark_gallery(model: MambaMatcher, preset: str, targets: int) -> Report:
    """Measure a gallery of random pictures."""
    side = model.config.side
    rng = np.random.default_rng(0)
    source, other, *gallery = (rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for _ in range(targets + 2))
    matcher = Matcher(model, cache_bytes=2**40)
    _seconds(matcher.match_many(source, gallery[:1], POINTS))  # kernels and transformed weights are ready after this
    matcher.clear_cache()
    with _timed(model) as spent:
        first = _seconds(matcher.match_many(source, gallery, POINTS))
    second = _seconds(matcher.match_many(other, gallery, POINTS))
    uncached = Matcher(model, cache_bytes=0)
    few = gallery[:FEW]
    slow = _seconds(uncached.match(source, target, POINTS) for target in few) / len(few) * targets
    passes = {name: len(seconds) for name, seconds in spent.items()}
    total = sum(map(sum, spent.values()))
    return Report(circumstances(), preset, side, targets, first, passes, total, second, slow)


def _seconds(results: Iterable[object]) -> float:
    begun = perf_counter()
    for _ in results:
        pass
    return perf_counter() - begun


@contextmanager
def _timed(model: MambaMatcher) -> Iterator[dict[str, list[float]]]:
    """Note how long each pass through the model takes, whoever asks for it."""
    spent: dict[str, list[float]] = {name: [] for name in PASSES}
    for name, seconds in spent.items():
        setattr(model, name, partial(_note, getattr(model, name), seconds))
    try:
        yield spent
    finally:
        for name in spent:
            delattr(model, name)


def _note(function: Callable[..., Any], seconds: list[float], *arguments: Any) -> Any:
    begun = perf_counter()
    result = function(*arguments)
    seconds.append(perf_counter() - begun)
    return result
