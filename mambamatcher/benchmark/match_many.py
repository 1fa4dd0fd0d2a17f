"""Time of matching one source with many targets: what the feature cache saves, and what its bookkeeping costs."""

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
UNCACHED_PAIRS = 3  # pairs matched without a cache; the time of all is extrapolated from them
PASSES = ("encode", "correlate")


@dataclass(frozen=True, slots=True)
class GalleryBenchmark:
    """Seconds for one source and a gallery of targets.

    Attributes:
        circumstances: Machine and version.
        preset: Name of the model.
        side: Side of the images in pixels.
        targets: Number of targets.
        gallery_seconds: Time of `match_many` with an empty cache.
        passes: How often images were described and pairs compared.
        passes_seconds: Time that these calls took.
        second_source_seconds: Time for another source, with the targets' features in memory.
        uncached_seconds: Time pair by pair, without a cache.
    """

    circumstances: Circumstances
    preset: str
    side: int
    targets: int
    gallery_seconds: float
    passes: dict[str, int]
    passes_seconds: float
    second_source_seconds: float
    uncached_seconds: float

    @property
    def overhead(self) -> float:
        """Share of time beyond the calls of the model."""
        return self.gallery_seconds / self.passes_seconds - 1

    def as_dict(self) -> dict:
        """Return plain containers, for JSON."""
        return asdict(self) | {"overhead": self.overhead}

    def as_text(self) -> str:
        """Return the figures as lines of text."""
        rows = (
            ("empty cache", self.gallery_seconds),
            ("another source, targets in memory", self.second_source_seconds),
            ("pair by pair, no cache", self.uncached_seconds),
        )
        lines = [
            f"{self.preset} at {self.side} px, 1 source x {self.targets} targets: encoded {self.passes['encode']} "
            f"images and correlated {self.passes['correlate']} pairs, overhead {100 * self.overhead:+.1f} %"
        ]
        lines += [f"  {name:34} {seconds:8.2f} s, {seconds / self.targets:.3f} s per target" for name, seconds in rows]
        return "\n".join(lines)


def benchmark_gallery(model: MambaMatcher, preset: str, targets: int) -> GalleryBenchmark:
    """Measure a gallery of random images."""
    side = model.config.side
    rng = np.random.default_rng(0)
    source, other, *gallery = (rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for _ in range(targets + 2))
    matcher = Matcher(model, cache_bytes=2**40)
    _seconds(matcher.match_many(source, gallery[:1], POINTS))  # warm-up: compiles kernels and transforms weights
    matcher.clear_cache()
    with _timed(model) as spent:
        first = _seconds(matcher.match_many(source, gallery, POINTS))
    second = _seconds(matcher.match_many(other, gallery, POINTS))
    uncached = Matcher(model, cache_bytes=0)
    few = gallery[:UNCACHED_PAIRS]
    slow = _seconds(uncached.match(source, target, POINTS) for target in few) / len(few) * targets
    passes = {name: len(seconds) for name, seconds in spent.items()}
    total = sum(map(sum, spent.values()))
    return GalleryBenchmark(circumstances(), preset, side, targets, first, passes, total, second, slow)


def _seconds(results: Iterable[object]) -> float:
    started = perf_counter()
    for _ in results:
        pass
    return perf_counter() - started


@contextmanager
def _timed(model: MambaMatcher) -> Iterator[dict[str, list[float]]]:
    """Record the time of each call of the model, whoever makes it."""
    spent: dict[str, list[float]] = {name: [] for name in PASSES}
    for name, seconds in spent.items():
        setattr(model, name, partial(_record, getattr(model, name), seconds))
    try:
        yield spent
    finally:
        for name in spent:
            delattr(model, name)


def _record(function: Callable[..., Any], seconds: list[float], *arguments: Any) -> Any:
    started = perf_counter()
    result = function(*arguments)
    seconds.append(perf_counter() - started)
    return result
