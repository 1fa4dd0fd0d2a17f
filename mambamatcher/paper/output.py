"""What a reproduced table or figure is written as: JSON, Markdown and a picture; quoted numbers are always marked."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mambamatcher.io.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUOTED, MEASURED, COMPUTED = "quoted from the paper", "measured here", "computed here"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number or a word, with its 95 % interval where there is one; without a value, not available."""

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
        # one decimal as PCK is given, a second where the paper prints one
        return f"{self.value:.1f}" if round(self.value, 1) == self.value else f"{self.value:.2f}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row; `origin` says who measured it and `protocol` how."""

    name: str
    origin: str
    protocol: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class TableResult:
    """A table of the paper with our rows below its own."""

    name: str
    title: str
    label: str
    columns: tuple[str, ...]
    headline: int
    rows: list[Row]
    remarks: tuple[str, ...] = ()

    def groups(self) -> dict[tuple[str, str], list[Row]]:
        """Return the rows by who measured them and how, so that numbers of two protocols never share a table."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.origin, row.protocol), []).append(row)
        return groups

    def markdown(self) -> str:
        """Write the table for people."""
        lines = [f"# {self.title} (`{self.name}`, {self.label} of the paper)"]
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
    """A figure of the paper made anew: the picture, the numbers behind it, and what they say."""

    name: str
    title: str
    label: str
    numbers: Mapping[str, Any]
    text: str
    picture: "Figure"


def write_table(result: TableResult, folder: Path) -> list[Path]:
    """Write `NAME.json`, `NAME.md` and `NAME.png` into a folder."""
    from mambamatcher.paper.charts import table_chart

    return _write(result.name, asdict(result), result.markdown(), table_chart(result), folder)


def write_figure(result: FigureResult, folder: Path, *, with_picture: bool = True) -> list[Path]:
    """Write `NAME.json`, `NAME.md` and `NAME.png` into a folder."""
    content = {"name": result.name, "title": result.title, "label": result.label, "numbers": dict(result.numbers)}
    text = f"# {result.title} (`{result.name}`, {result.label} of the paper)\n\n{result.text}\n"
    link = f"\n![{result.title}]({result.name}.png)\n" if with_picture else ""
    return _write(result.name, content, text + link, result.picture if with_picture else None, folder)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: _fill(temporary, text), overwrite=True)


def _write(name: str, content: Mapping[str, Any], text: str, picture: "Figure | None", folder: Path) -> list[Path]:
    paths = {kind: folder / f"{name}.{kind}" for kind in ("json", "md", *(["png"] if picture else []))}
    write_text(paths["json"], json.dumps(content, indent=1) + "\n")
    write_text(paths["md"], text)
    if picture is not None:
        write_atomically(paths["png"], lambda temporary: picture.savefig(temporary, dpi=110), overwrite=True)
    return list(paths.values())


def _fill(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
