"""What a reproduced table or figure is written as: JSON, Markdown and a picture; quoted numbers are always marked."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mambamatcher.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUOTED, MEASURED, COMPUTED = "quoted from the paper", "measured here", "computed here"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number or a word, with its 95 % interval where there is one; without a value, not available."""

    value: float | str | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return "-"
        if isinstance(self.value, str):
            return self.value
        number = f"{self.value:,.4g}" if abs(self.value) >= 1000 or 0 < abs(self.value) < 1 else f"{self.value:.1f}"
        return number if self.low is None or self.high is None else f"{number} ({self.low:.1f} to {self.high:.1f})"


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

    def markdown(self) -> str:
        """Write the table for people."""
        lines = [
            f"# {self.title} (`{self.name}`, {self.label} of the paper)",
            "",
            f"| row | origin | {' | '.join(self.columns)} | protocol |",
            f"|{'---|' * (len(self.columns) + 3)}",
        ]
        for row in self.rows:
            name = row.name if row.origin == QUOTED else f"**{row.name}**"
            lines.append(f"| {name} | {row.origin} | {' | '.join(map(str, row.cells))} | {row.protocol} |")
        lines += ["", "Intervals of measured PCK: 95 %, bootstrap over pairs."]
        return "\n".join([*lines, *(f"\n{remark}" for remark in self.remarks)]) + "\n"


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
    from mambamatcher.analysis.charts import table_chart

    return _write(result.name, asdict(result), result.markdown(), table_chart(result), folder)


def write_figure(result: FigureResult, folder: Path) -> list[Path]:
    """Write `NAME.json`, `NAME.md` and `NAME.png` into a folder."""
    content = {"name": result.name, "title": result.title, "label": result.label, "numbers": dict(result.numbers)}
    text = f"# {result.title} (`{result.name}`, {result.label} of the paper)\n\n{result.text}\n\n"
    return _write(result.name, content, f"{text}![{result.title}]({result.name}.png)\n", result.picture, folder)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: _fill(temporary, text), overwrite=True)


def _write(name: str, content: Mapping[str, Any], text: str, picture: "Figure", folder: Path) -> list[Path]:
    paths = [folder / f"{name}.{kind}" for kind in ("json", "md", "png")]
    write_text(paths[0], json.dumps(content, indent=1) + "\n")
    write_text(paths[1], text)
    write_atomically(paths[2], lambda temporary: picture.savefig(temporary, dpi=110), overwrite=True)
    return paths


def _fill(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
