"""The runtimes of the shipped models side by side: install size, start, time, throughput and memory, in one run."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from typing import Any

from mambamatcher.benchmark import runtime_process
from mambamatcher.benchmark.install_size import dependencies, megabytes
from mambamatcher.benchmark.measurement import Circumstances, circumstances
from mambamatcher.benchmark.runtime_process import SOURCE, TARGET
from mambamatcher.errors import BackendError
from mambamatcher.model.saved import INT8_GRAPH, SHIPPED

MODELS = ("default", "lite")
# each as `Matcher.from_pretrained` takes it, with the package that it needs
RUNTIMES = {"torch": "torch", "onnx": "onnxruntime", "int8": "onnxruntime"}
BASELINE = "torch"  # what the ratios are relative to

_FIRST_MATCH = """
import sys, time
spawned, (model, runtime, source, target) = float(sys.argv[1]), sys.argv[2:]
started = time.time()
from mambamatcher import Matcher
imported = time.time()
matcher = Matcher.from_pretrained(model, runtime=runtime)
matcher.match(source, target, [(264, 238)])
print(imported - started, time.time() - spawned)
"""


@dataclass(frozen=True, slots=True)
class RuntimeTimes:
    """One model in one runtime.

    Attributes:
        model: Name of the shipped model.
        runtime: Name of the runtime.
        import_seconds: `from mambamatcher import Matcher` in a new process.
        first_match_seconds: From the start of a process to its first match, imports and loading included.
        pair_seconds: Matching two photos, both encoded.
        pair_cpu_seconds: Processor time of that, of all threads.
        encode_cpu_seconds: Processor time of encoding one image.
        propagate_images_per_second: Targets of `propagate`, files decoded, one reference, no image twice.
        peak_mib: Peak memory of the process that measured all this; `None` outside Linux.
        busy_pair_seconds: Matching two photos while every core runs an endless loop.
    """

    model: str
    runtime: str
    import_seconds: float
    first_match_seconds: float
    pair_seconds: float
    pair_cpu_seconds: float
    encode_cpu_seconds: float
    propagate_images_per_second: float
    peak_mib: float | None
    busy_pair_seconds: float

    @property
    def slowdown_when_busy(self) -> float:
        """How much longer a match takes while every core is busy."""
        return self.busy_pair_seconds / self.pair_seconds

    def numbers(self) -> dict[str, float]:
        """Return every measurement by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        known = {name: value for name, value in values.items() if value is not None}
        return known | {"slowdown_when_busy": self.slowdown_when_busy}


@dataclass(frozen=True, slots=True)
class RuntimeBenchmark:
    """All models in all runtimes that are installed.

    Attributes:
        circumstances: Machine and version.
        threads: Threads of each runtime; `None` for its own default.
        install_megabytes: Space of all dependencies of the base install and of the extra `torch`, without this package
            and its weights; `None` for a set that is not installed here.
        times: A row for each model and runtime.
    """

    circumstances: Circumstances
    threads: int | None
    install_megabytes: dict[str, float | None]
    times: list[RuntimeTimes]

    def ratios(self) -> list[dict[str, Any]]:
        """Return every measurement of the other runtimes as a multiple of the baseline's, model by model."""
        base = {row.model: row.numbers() for row in self.times if row.runtime == BASELINE}
        return [
            {"model": row.model, "runtime": row.runtime, "relative_to": BASELINE}
            | {name: value / base[row.model][name] for name, value in row.numbers().items()}
            for row in self.times
            if row.runtime != BASELINE and row.model in base
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain containers, for JSON."""
        times = [{"model": row.model, "runtime": row.runtime, **row.numbers()} for row in self.times]
        return asdict(self) | {"times": times, "ratios": self.ratios()}

    def as_text(self) -> str:
        """Return the figures as a table: a line per measurement, a column per model and runtime."""
        columns = {f"{row.model} {row.runtime}": row.numbers() for row in self.times}
        columns |= {f"{row['model']} {row['runtime']}/{row['relative_to']}": row for row in self.ratios()}
        lines = ["".join([f"{'':28}", *(f"{heading:>20}" for heading in columns)])]
        for name in self.times[0].numbers():
            lines.append("".join([f"{name:28}", *(f"{column[name]:20.3g}" for column in columns.values())]))
        sizes = (
            f"{name} {'not installed' if size is None else f'{size:.0f} MB'}"
            for name, size in self.install_megabytes.items()
        )
        return "\n".join([*lines, f"install size: {', '.join(sizes)}"])


def benchmark_runtimes(
    rounds: int, threads: int | None = None, report: Callable[[str], object] | None = None
) -> RuntimeBenchmark:
    """Measure every shipped model in every runtime that is installed.

    Each measurement is made in a new process, and the runtimes take turns, so that a change of the machine's load meets
    all of them.

    Args:
        rounds: How often each is measured; the best of each number counts.
        threads: Threads of each runtime; None for its own default.
        report: Called with a line for each measurement.

    Raises:
        BackendError: A process failed.
    """
    installed = [name for name, package in RUNTIMES.items() if find_spec(package) is not None]
    rows = [
        (model, name)
        for model in MODELS
        for name in installed
        if name != "int8" or (SHIPPED[model] / INT8_GRAPH).is_file()
    ]
    here = circumstances()
    found: dict[tuple[str, str], list[RuntimeTimes]] = {}
    for number in range(rounds):
        for model, runtime in rows:
            row = _measure(model, runtime, threads)
            found.setdefault((model, runtime), []).append(row)
            if report is not None:
                report(f"round {number + 1}: {model} in {runtime}, {row.pair_seconds:.3f} s per pair")
    return RuntimeBenchmark(here, threads, install_sizes(), [_best(rows) for rows in found.values()])


def install_sizes() -> dict[str, float | None]:
    """Return the space that the dependencies of the base install and of the extra `torch` take here."""
    sets = {"base": dependencies("mambamatcher"), "torch": dependencies("mambamatcher", "torch")}
    return {name: None if packages is None else megabytes(packages) for name, packages in sets.items()}


def _measure(model: str, runtime: str, threads: int | None) -> RuntimeTimes:
    # both runtimes heed it
    environment = os.environ if threads is None else os.environ | {"OMP_NUM_THREADS": str(threads)}
    photos = str(SOURCE), str(TARGET)
    started = _run(environment, "-c", _FIRST_MATCH, str(time.time()), model, runtime, *photos)
    steady = _run(environment, "-m", runtime_process.__name__, model, runtime)
    imported, first = map(float, started.split())
    return RuntimeTimes(model, runtime, imported, first, **json.loads(steady))


def _run(environment: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BackendError(f"a measuring process failed: {(done.stderr.strip() or 'killed').splitlines()[-1]}")
    return done.stdout


def _best(rows: Sequence[RuntimeTimes]) -> RuntimeTimes:
    """Return the best of each number: the highest throughput, the lowest of all others."""
    best = {
        field.name: (max if field.name == "propagate_images_per_second" else min)(values)
        for field in fields(RuntimeTimes)[2:]
        if (values := [getattr(row, field.name) for row in rows if getattr(row, field.name) is not None])
    }
    return RuntimeTimes(rows[0].model, rows[0].runtime, **({"peak_mib": None} | best))
