"""`mambamatcher compare`: test whether one model is better than another."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mambamatcher.evaluation.compare import Comparison


def compare(
    first: Annotated[Path, typer.Argument(help="report.json of an evaluation.")],
    second: Annotated[Path, typer.Argument(help="report.json of another evaluation on the same data.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare two evaluations pair by pair, with intervals and significance tests per threshold and category.

    Example: mambamatcher compare before/report.json after/report.json
    """
    from mambamatcher.evaluation.compare import compare as compare_reports
    from mambamatcher.evaluation.report import read_report

    reports = read_report(first), read_report(second)
    rows = compare_reports(*reports)
    names = [report["model"] for report in reports]
    if names[0] == names[1]:
        names = [f"{name} ({path})" for name, path in zip(names, (first, second), strict=True)]
    if as_json:
        found = [{**asdict(row), "words": row.words(names[0], names[1])} for row in rows]
        typer.echo(json.dumps({"first": names[0], "second": names[1], "comparisons": found}))
    else:
        print_comparisons(rows, names)


def print_comparisons(rows: "list[Comparison]", names: list[str]) -> None:
    """Print a table of all comparisons, and the overall result in words."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    table = Table(title=f"{names[0]} against {names[1]}", caption="per image; p of single categories corrected (Holm)")
    for heading in (
        "category",
        "alpha",
        "pairs",
        "first",
        "second",
        "second - first (95 %)",
        "p per image",
        "p per point",
    ):
        table.add_column(heading, justify="left" if heading == "category" else "right")
    for row in rows:
        change = f"{100 * row.difference:+.1f} ({100 * row.low:+.1f} to {100 * row.high:+.1f})"
        values = f"{100 * row.first:.1f}", f"{100 * row.second:.1f}"
        tests = f"{row.p_image:.2g}", f"{row.p_point:.2g}"
        table.add_row(row.category, f"{row.alpha:g}", str(row.pairs), *values, change, *tests)
    console.print(table)
    for row in rows:
        if row.category == "all":
            console.print(row.words(names[0], names[1]), soft_wrap=True, markup=False)
