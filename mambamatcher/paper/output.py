"""Write reproduced tables and figures as JSON, Markdown and an image. Quoted numbers are always marked."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mambamatcher.io.atomic import make_folder, write_atomically, write_text_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUOTED, MEASURED, COMPUTED = "quoted from the paper", "measured here", "computed here"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number or a word, with its 95 % interval if there is one. `None` is a value that is not available."""

    value: float | int | str | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return "-"
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, int):
            return f"{self.value:,}"
        if self.low is not None and self.high is not None:
            return f"{self.value:.1f} ({self.low:.1f} to {self.high:.1f})"
        if not 1 <= abs(self.value) < 1000:
            return f"{self.value:.4g}" if abs(self.value) < 1 else f"{self.value:,.0f}"
        # PCK has one decimal; some numbers of the paper have two
        return f"{self.value:.1f}" if round(self.value, 1) == self.value else f"{self.value:.2f}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table.

    Attributes:
        name: What was measured.
        origin: Who measured it: `QUOTED`, `MEASURED` or `COMPUTED`.
        protocol: How it was measured.
        cells: A value for each column.
    """

    name: str
    origin: str
    protocol: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class TableResult:
    """A table of the paper with our rows below the quoted ones. `headline` is the column that the chart shows."""

    name: str
    title: str
    label: str
    columns: tuple[str, ...]
    headline: int
    rows: list[Row]
    remarks: tuple[str, ...] = ()

    def groups(self) -> dict[tuple[str, str], list[Row]]:
        """Group rows by origin and protocol, so that numbers of two protocols never share a table."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.origin, row.protocol), []).append(row)
        return groups

    def markdown(self) -> str:
        """Return the table as a Markdown page."""
        where = f"{self.label} of the paper" if self.label else "not in the paper"
        lines = [f"# {self.title} (`{self.name}`, {where})"]
        for (origin, protocol), rows in self.groups().items():
            lines += ["", f"**{origin.capitalize()}**: {protocol}.", ""]
            lines += [f"| row | {' | '.join(self.columns)} |", f"|{'---|' * (len(self.columns) + 1)}"]
            lines += [f"| {row.name} | {' | '.join(map(str, row.cells))} |" for row in rows]
        if any(cell.low is not None for row in self.rows if row.origin == MEASURED for cell in row.cells):
            lines += ["", "In brackets: 95 % intervals, bootstrap over pairs."]
        lines += [part for remark in self.remarks for part in ("", remark)]
        return "\n".join([*lines, "", f"![{self.title}]({self.name}.png)"]) + "\n"


@dataclass(frozen=True, kw_only=True)
class FigureResult:
    """A reproduced figure of the paper.

    Attributes:
        name: Name of the figure on the command line.
        title: What it shows.
        label: Label of the figure in the paper's source.
        numbers: The numbers behind it, for JSON.
        text: What the numbers say, in words.
        drawing: The figure itself.
    """

    name: str
    title: str
    label: str
    numbers: Mapping[str, Any]
    text: str
    drawing: "Figure"


def write_table(result: TableResult, folder: Path) -> list[Path]:
    """Write `NAME.json`, `NAME.md` and `NAME.png` into a folder, and return their paths."""
    from mambamatcher.paper.charts import table_chart

    return _write(result.name, asdict(result), result.markdown(), table_chart(result), folder)


def write_figure(result: FigureResult, folder: Path, *, with_image: bool = True) -> list[Path]:
    """Write `NAME.json`, `NAME.md` and, if wanted, `NAME.png` into a folder, and return their paths."""
    content = {"name": result.name, "title": result.title, "label": result.label, "numbers": dict(result.numbers)}
    text = f"# {result.title} (`{result.name}`, {result.label} of the paper)\n\n{result.text}\n"
    link = f"\n![{result.title}]({result.name}.png)\n" if with_image else ""
    return _write(result.name, content, text + link, result.drawing if with_image else None, folder)


def _write(name: str, content: Mapping[str, Any], text: str, drawing: "Figure | None", folder: Path) -> list[Path]:
    make_folder(folder)
    paths = {kind: folder / f"{name}.{kind}" for kind in ("json", "md", *(["png"] if drawing else []))}
    write_text_atomically(paths["json"], json.dumps(content, indent=1) + "\n", overwrite=True)
    write_text_atomically(paths["md"], text, overwrite=True)
    if drawing is not None:
        write_atomically(paths["png"], lambda temporary: drawing.savefig(temporary, dpi=110), overwrite=True)
    return list(paths.values())
