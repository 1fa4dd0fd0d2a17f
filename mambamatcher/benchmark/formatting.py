"""Benchmark results as text and as a chart."""

from itertools import groupby
from pathlib import Path

from mambamatcher.benchmark.cold_start import FirstPair
from mambamatcher.benchmark.measurement import Circumstances
from mambamatcher.benchmark.pair_stages import WHOLE, PairBenchmark, StageTime
from mambamatcher.benchmark.scan import ContestantTime, ScanBenchmark

_SCAN_HEADER = "| | seconds | times our scan | CPU seconds | times our scan | extra memory |"


def scan_line(row: ContestantTime) -> str:
    """Return one result of the scan benchmark as a line of text."""
    start = f"{row.what:18} {row.tokens:>10,} tokens  {row.contestant:24}"
    if row.seconds is None:
        return f"{start} not run: {row.skipped}"
    cpu = f"(CPU {row.cpu_seconds:.3f} s, {row.cpu_times_ours:.1f} x)"
    return f"{start} {row.seconds:8.3f} s, {row.times_ours:6.1f} x our scan {cpu:26} {_memory(row):>12}"


def scan_markdown(found: ScanBenchmark) -> str:
    """Return the scan benchmark as a Markdown page."""
    lines = [
        "# Selective scan and refinement",
        "",
        _measured(found.circumstances),
        "",
        "One sequence, 48 channels, 16 states (refinement, FastFormer and convolution: 16 levels). Best of several "
        "runs after a warm-up; loops once. Extra memory is the peak beyond the inputs, including the output.",
    ]
    for (what, tokens), rows in groupby(found.rows, key=lambda row: (row.what, row.tokens)):
        lines += ["", f"## {what}, {tokens:,} tokens", "", _SCAN_HEADER, "|---|---|---|---|---|---|"]
        lines += map(_scan_row, rows)
    return "\n".join(lines) + "\n"


def _scan_row(row: ContestantTime) -> str:
    if row.seconds is None:
        return f"| {row.contestant} | {row.skipped} | | | | |"
    times = f"{row.seconds:.3f} | {row.times_ours:.2f} | {row.cpu_seconds:.3f} | {row.cpu_times_ours:.2f}"
    return f"| {row.contestant} | {times} | {_memory(row)} |"


def _memory(row: ContestantTime) -> str:
    return "" if row.extra_mib is None else f"{row.extra_mib:,.0f} MiB"


def pair_markdown(found: PairBenchmark) -> str:
    """Return the benchmark of a pair as a Markdown page."""
    lines = [
        f"# A pair with `{found.preset}`",
        "",
        _measured(found.circumstances),
        "",
        f"A 2048³ matrix product reached {found.matmul_gflops:.0f} GFLOPS at best in this run. The limit of a stage is "
        "its arithmetic (convolutions as Winograd leaves them) at the speed measured just before its size. Ours is the "
        "best of several runs after a warm-up. The straightforward version is run once, and its whole pair is the sum "
        "of its stages.",
        "",
        "| side | stage | ours, s | limit, s | ours / limit | straightforward, s | / ours | channels last, s |",
        "|---|---|---|---|---|---|---|---|",
        *map(_stage_row, found.rows),
        "",
        "## The first pair of a new process",
        "",
        "The cold start is the time from the start of the process to its first match, without importing torch. Its "
        "processor time is that of all threads together. The fastest start counts.",
        "",
        "| side | low memory | import torch, s | start, s | import the rest, s | load, s | first pair, s "
        "| cold start, s | its processor time, s | peak resident, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *map(_first_pair_row, found.processes),
    ]
    return "\n".join(lines) + "\n"


def _measured(at: Circumstances) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in at.versions.items())
    return (
        f"{at.date}, commit {at.commit}. {at.cpu}, {at.cores} cores, {at.threads} threads, load {at.load} after the "
        f"run. {versions}."
    )


def _stage_row(row: StageTime) -> str:
    limit = f"{row.floor_seconds:.3f} | {row.seconds / row.floor_seconds:.2f}" if row.floor_seconds else " | "
    plain = " | "
    if row.plain_seconds is not None:
        plain = f"{row.plain_seconds:.3f} | {row.plain_seconds / row.seconds:.1f}"
    last = "" if row.plain_channels_last_seconds is None else f"{row.plain_channels_last_seconds:.3f}"
    return f"| {row.side} | {row.stage} | {row.seconds:.3f} | {limit} | {plain} | {last} |"


def _first_pair_row(first: FirstPair) -> str:
    seconds = (
        first.import_torch_seconds,
        first.start_seconds,
        first.import_seconds,
        first.load_seconds,
        first.first_pair_seconds,
        first.cold_start_seconds,
        first.cpu_seconds,
    )
    times = " | ".join(f"{each:.2f}" for each in seconds)
    peak = "" if first.peak_mib is None else f"{first.peak_mib:,.0f}"
    return f"| {first.side} | {'yes' if first.low_memory else 'no'} | {times} | {peak} |"


def plot_pair(found: PairBenchmark, path: Path) -> None:
    """Draw time against resolution with stacked stages, and the limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    sides = sorted({row.side for row in found.rows})
    names = list(dict.fromkeys(row.stage for row in found.rows if row.stage != WHOLE))
    seconds = {(row.side, row.stage): row.seconds for row in found.rows}
    axes.stackplot(sides, [[seconds[side, name] for side in sides] for name in names], labels=names, alpha=0.85)
    whole = [row for row in found.rows if row.stage == WHOLE]
    axes.plot([row.side for row in whole], [row.floor_seconds for row in whole], "k--", label="arithmetic limit")
    plain = {row.side: row.plain_seconds for row in whole if row.plain_seconds is not None}
    axes.plot(list(plain), list(plain.values()), "rx-", label="straightforward")
    axes.set(
        xlabel="side of both images, pixels", ylabel="seconds per pair", title=f"{found.preset}: time and resolution"
    )
    axes.set_xticks(sides)
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=120)
