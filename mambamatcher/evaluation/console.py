"""Print a report on the terminal as one table of all protocols."""

from rich.console import Console
from rich.table import Table

from mambamatcher.evaluation.markdown import left_right_line, percent
from mambamatcher.evaluation.report import Report

WIDE = 150  # terminal columns needed to show the intervals


def print_report(report: Report, console: Console) -> None:
    """Print the scores; the first row has the benchmark's reference in original pixels.

    Narrow terminals get no intervals.
    """
    title = f"{report['model']} on {report['dataset']} {report['split']}"
    size = f"{report['pairs']} pairs, {report['points']} points"
    wide = console.width >= WIDE
    caption = "percent, with 95 % bootstrap intervals over pairs" if wide else "percent; the report has the intervals"
    table = Table(title=f"{title}: {size}", caption=caption)
    for heading in ("reference", "scale", "average"):
        table.add_column(heading, no_wrap=True)
    for alpha in report["alphas"]:
        table.add_column(f"PCK@{alpha:g}", justify="right")
    for number, row in enumerate(report["scores"]):
        labels = (row["reference"], row["scale"], row["average"])
        last = number + 1 == len(report["scores"]) or row["average"] == "category-point"
        values = [percent(value) if wide else f"{100 * value['value']:.1f}" for value in row["values"]]
        table.add_row(*labels, *values, style="bold" if number == 0 else None, end_section=last)
    console.print(table)
    if report["left_right"]:
        console.print(left_right_line(report["left_right"]))
    if report["skipped"]:
        console.print(f"{len(report['skipped'])} bad items were skipped; the report lists them")
