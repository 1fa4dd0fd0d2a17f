"""Benchmark results as text."""

from itertools import groupby

from mambamatcher.benchmark.scan import Report, Row

_HEADER = "| | seconds | times our scan | CPU seconds | times our scan | extra memory |"


def as_line(row: Row) -> str:
    """Write one row as a line."""
    start = f"{row.what:18} {row.tokens:>10,} tokens  {row.contestant:24}"
    if row.seconds is None:
        return f"{start} not run: {row.skipped}"
    cpu = f"(CPU {row.cpu_seconds:.3f} s, {row.cpu_times_ours:.1f} x)"
    return f"{start} {row.seconds:8.3f} s, {row.times_ours:6.1f} x our scan {cpu:26} {_memory(row):>12}"


def as_markdown(report: Report) -> str:
    """Write a whole run as a page."""
    at = report.circumstances
    versions = ", ".join(f"{name} {number}" for name, number in at.versions.items())
    lines = [
        "# Selective scan and refinement",
        "",
        f"{at.date}, commit {at.commit}. {at.cpu}, {at.cores} cores, {at.threads} threads, load {at.load} at the end. "
        f"{versions}.",
        "",
        "One sequence, 48 channels, 16 states (refinement, FastFormer and convolution: 16 levels). Best of several "
        "runs without the first; loops once. Extra memory is the peak beyond the inputs, outputs included.",
    ]
    for (what, tokens), rows in groupby(report.rows, key=lambda row: (row.what, row.tokens)):
        lines += ["", f"## {what}, {tokens:,} tokens", "", _HEADER, "|---|---|---|---|---|---|"]
        lines += [_table_row(row) for row in rows]
    return "\n".join(lines) + "\n"


def _table_row(row: Row) -> str:
    if row.seconds is None:
        return f"| {row.contestant} | {row.skipped} | | | | |"
    times = f"{row.seconds:.3f} | {row.times_ours:.2f} | {row.cpu_seconds:.3f} | {row.cpu_times_ours:.2f}"
    return f"| {row.contestant} | {times} | {_memory(row)} |"


def _memory(row: Row) -> str:
    return "" if row.extra_mib is None else f"{row.extra_mib:,.0f} MiB"
