"""The paper's tables as it prints them, read from the TOML files of this folder."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mambamatcher.paper.output import QUOTED, Cell, Row


@dataclass(frozen=True, kw_only=True)
class QuotedTable:
    """One table of the paper.

    Attributes:
        label: Label of the table in the paper's source.
        title: What the table is about.
        protocol: What its numbers mean.
        columns: Headings of the values.
        headline: Index of the column that charts show.
        rows: The numbers.
        remarks: What a reader of the numbers should know.
    """

    label: str
    title: str
    protocol: str
    columns: tuple[str, ...]
    headline: int
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()


def parse_tables(text: str) -> Iterator[tuple[str, QuotedTable]]:
    """Yield the name and content of each table in the text of a TOML file."""
    content = tomllib.loads(text)
    remarks = content.pop("remarks", [])
    for name, table in content.items():
        columns = tuple(table["columns"])
        protocol = table["protocol"]
        yield (
            name,
            QuotedTable(
                label=table["label"],
                title=table["title"],
                protocol=protocol,
                columns=columns,
                headline=columns.index(table["headline"]),
                rows=tuple(
                    Row(name=row, origin=QUOTED, protocol=protocol, cells=tuple(map(_cell, values)))
                    for row, *values in table["rows"]
                ),
                remarks=tuple(remark["text"] for remark in remarks if name in remark["tables"]),
            ),
        )


def _cell(printed: Any) -> Cell:
    """Return a value as printed: `-` is left out, and `59.9±0.74` is a mean with its standard deviation."""
    if printed == "-":
        return Cell()
    if isinstance(printed, str) and "±" in printed:
        value, deviation = map(float, printed.split("±"))
        return Cell(value=value, low=value - deviation, high=value + deviation)
    return Cell(value=printed)


QUOTED_TABLES: dict[str, QuotedTable] = dict(
    table
    for path in sorted(Path(__file__).parent.glob("*.toml"))
    for table in parse_tables(path.read_text(encoding="utf-8"))
)
