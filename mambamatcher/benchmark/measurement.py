"""Measure time and peak memory, and describe the machine and the version."""

import ctypes
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MEBI = 1 << 20
_LIBRARIES = ("torch", "numba", "numpy", "onnxruntime")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The best of several runs.

    Attributes:
        seconds: Wall-clock time.
        cpu_seconds: Processor time of all threads, which other load on the machine affects less.
        extra_mib: Peak memory beyond what the process held before. `None` outside Linux.
    """

    seconds: float
    cpu_seconds: float
    extra_mib: float | None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Machine, time and version of a measurement."""

    date: str
    cpu: str
    cores: int
    threads: int
    load: float  # load average just before; above zero, other processes were running
    memory_gib: float
    commit: str
    versions: dict[str, str]


def measure(function: Callable[[], object], runs: int, warm_up: bool = True) -> Measurement:
    """Call a function several times and return the shortest times and the smallest peak."""
    if warm_up:
        function()
    seconds, cpu_seconds, extra = [], [], []
    for _ in range(runs):
        before = _start_peak()
        started, cpu_started = time.perf_counter(), time.process_time()
        result = function()
        seconds.append(time.perf_counter() - started)
        cpu_seconds.append(time.process_time() - cpu_started)
        if before is not None:
            extra.append(_status_mib("VmHWM") - before)
        del result
    return Measurement(min(seconds), min(cpu_seconds), min(extra) if extra else None)


def circumstances() -> Circumstances:
    """Describe this machine and version, now."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return Circumstances(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        threads=_threads(),
        load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
        memory_gib=round(available_mib() / 1024, 1),
        commit=commit.stdout.strip() or "unknown",
        versions={"python": platform.python_version()}
        | {name: version(name) for name in _LIBRARIES if find_spec(name) is not None},
    )


def available_mib() -> float:
    """Return the memory that is available without swapping."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) / 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _MEBI


def peak_mib() -> float | None:
    """Return the peak memory of this process, or `None` outside Linux."""
    return _status_mib("VmHWM") if _STATUS.exists() else None


def _start_peak() -> float | None:
    """Reset the peak memory and return the present one. Only Linux records a peak."""
    try:
        # memory that earlier runs freed and the allocator kept would hide what this run takes
        ctypes.CDLL(None).malloc_trim(0)
        _RESET.write_text("5")
    except (OSError, AttributeError, TypeError):
        return None
    return _status_mib("VmRSS")


def _status_mib(field: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def _threads() -> int:
    """Return the number of threads that PyTorch uses, or would use."""
    if find_spec("torch") is None:
        return os.cpu_count() or 1
    from mambamatcher.ops.native.threads import thread_count

    return thread_count()


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
