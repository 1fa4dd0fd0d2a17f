"""The benchmark of a pair as text and as a picture."""

from pathlib import Path

from mambamatcher.benchmark.pair import WHOLE, Process, Report, Row


def as_markdown(report: Report) -> str:
    """Write a whole run as a page."""
    at = report.circumstances
    versions = ", ".join(f"{name} {number}" for name, number in at.versions.items())
    lines = [
        f"# A pair with `{report.preset}`",
        "",
        f"{at.date}, commit {at.commit}. {at.cpu}, {at.cores} cores, {at.threads} threads, load {at.load} after the "
        f"run. {versions}.",
        "",
        f"A 2048³ matrix product reached {report.matmul_gflops:.0f} GFLOPS at best in this run; the limit of a stage "
        "is its arithmetic (convolutions as Winograd leaves them) at the speed measured just before its size. "
        "Ours is the best of several runs without the first, the straightforward version one run; its whole is the sum "
        "of its stages.",
        "",
        "| side | stage | ours, s | limit, s | ours / limit | straightforward, s | / ours | channels last, s |",
        "|---|---|---|---|---|---|---|---|",
        *map(_table_row, report.rows),
        "",
        "## The first pair of a new process",
        "",
        "The cold start is everything from the start of the process to its first match except importing torch, and its "
        "processor time that of all threads together; the quickest of as many starts as there were runs.",
        "",
        "| side | low memory | import torch, s | start, s | import the rest, s | load, s | first pair, s "
        "| cold start, s | its processor time, s | peak resident, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *map(_process_row, report.processes),
    ]
    return "\n".join(lines) + "\n"


def _table_row(row: Row) -> str:
    limit = f"{row.floor_seconds:.3f} | {row.seconds / row.floor_seconds:.2f}" if row.floor_seconds else " | "
    plain = " | "
    if row.plain_seconds is not None:
        plain = f"{row.plain_seconds:.3f} | {row.plain_seconds / row.seconds:.1f}"
    last = "" if row.plain_channels_last_seconds is None else f"{row.plain_channels_last_seconds:.3f}"
    return f"| {row.side} | {row.stage} | {row.seconds:.3f} | {limit} | {plain} | {last} |"


def _process_row(process: Process) -> str:
    seconds = (
        process.import_torch_seconds,
        process.start_seconds,
        process.import_seconds,
        process.load_seconds,
        process.first_pair_seconds,
        process.cold_start_seconds,
        process.cpu_seconds,
    )
    times = " | ".join(f"{each:.2f}" for each in seconds)
    peak = "" if process.peak_mib is None else f"{process.peak_mib:,.0f}"
    return f"| {process.side} | {'yes' if process.low_memory else 'no'} | {times} | {peak} |"


def plot(report: Report, path: Path) -> None:
    """Draw time against resolution, stages stacked, beside the limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    sides = sorted({row.side for row in report.rows})
    names = list(dict.fromkeys(row.stage for row in report.rows if row.stage != WHOLE))
    seconds = {(row.side, row.stage): row.seconds for row in report.rows}
    axes.stackplot(sides, [[seconds[side, name] for side in sides] for name in names], labels=names, alpha=0.85)
    whole = [row for row in report.rows if row.stage == WHOLE]
    axes.plot([row.side for row in whole], [row.floor_seconds for row in whole], "k--", label="limit set by arithmetic")
    plain = {row.side: row.plain_seconds for row in whole if row.plain_seconds is not None}
    axes.plot(list(plain), list(plain.values()), "rx-", label="straightforward")
    axes.set(
        xlabel="side of both images, pixels", ylabel="seconds a pair", title=f"{report.preset}: time and resolution"
    )
    axes.set_xticks(sides)
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=120)
