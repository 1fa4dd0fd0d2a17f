"""Charts of tables and panels of figures, drawn with matplotlib without a display."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from mambamatcher.io.heatmaps import overlay_heatmap
from mambamatcher.paper.output import QUOTED, Cell, Row, TableResult

CORRECT, WRONG, QUERY = "#009e73", "#d55e00", "#ffd700"
_QUOTED_COLOUR, _OWN_COLOUR = "#8a8a8a", "#0072b2"
_PANEL = 320  # longer side of a panel, in pixels


def table_chart(result: TableResult) -> Figure:
    """Draw the headline column, one panel per protocol: quoted numbers as circles, ours as dots with intervals."""
    groups = {}
    for key, rows in result.groups().items():
        shown = [row for row in rows if isinstance(row.cells[result.headline].value, float | int)]
        if shown:
            groups[key] = shown
    if not groups:
        return _word_table(result)
    heights = [len(rows) + 1.5 for rows in groups.values()]
    figure = Figure(figsize=(8, 0.8 + 0.27 * sum(heights)), layout="constrained")
    figure.suptitle(f"{result.title}: {result.columns[result.headline]}", fontsize=11)
    spans = [_span(rows, result.headline) for rows in groups.values()]
    overlap = max(low for low, _ in spans) <= min(high for _, high in spans)
    panels = figure.subplots(len(groups), squeeze=False, sharex=overlap, height_ratios=heights)[:, 0]
    for panel, ((origin, protocol), rows) in zip(panels, groups.items(), strict=True):
        panel.tick_params(labelbottom=True)
        _draw_rows(panel, rows, result.headline)
        panel.set_title(f"{origin}: {protocol}", fontsize=7, loc="left", wrap=True)
    return figure


def _span(rows: Sequence[Row], column: int) -> tuple[float, float]:
    values = [_number(row.cells[column]) for row in rows]
    return min(values), max(values)


def _draw_rows(panel: Axes, rows: Sequence[Row], column: int) -> None:
    for place, row in enumerate(rows):
        cell, quoted = row.cells[column], row.origin == QUOTED
        colour = _QUOTED_COLOUR if quoted else _OWN_COLOUR
        whiskers = None if cell.low is None or cell.high is None else _whiskers(cell)
        fill = "white" if quoted else colour
        panel.errorbar(_number(cell), place, xerr=whiskers, fmt="o", color=colour, markerfacecolor=fill)
    low, high = _span(rows, column)
    if low > 0 and high / low > 50:
        panel.set_xscale("log")
    panel.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.tick_params(axis="x", labelsize=8)
    panel.grid(axis="x", alpha=0.3)


def panel_grid(rows: int, columns: int) -> tuple[Figure, np.ndarray]:
    """Return a figure and its panels without axes, `[row, column]`."""
    figure = Figure(figsize=(2.3 * columns, 2.3 * rows + 0.3), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    return figure, panels


def show_points(
    panel: Axes, image: Image.Image, points: Float[np.ndarray, "keypoint 2"], colours: Sequence[str], title: str = ""
) -> None:
    """Show an image with points, given in its pixels."""
    shown, scale = _small(image)
    panel.imshow(np.asarray(shown))
    x, y = points.T * scale
    panel.scatter(x, y, s=36, c=list(colours), edgecolors="black", linewidths=0.8)
    panel.set_title(title, fontsize=8)


def show_heat(
    panel: Axes,
    image: Image.Image,
    scores: Float[np.ndarray, "ht wt"],
    truth: Float[np.ndarray, "2"],
    title: str = "",
) -> None:
    """Show scores over an image, scaled from the lowest to the highest, with a ring at the truth."""
    shown, scale = _small(image)
    # a high power, so that only the highest scores stand out; a constant map stays dark
    heat = ((scores - scores.min()) / max(scores.max() - scores.min(), 1e-12)) ** 6
    panel.imshow(np.asarray(overlay_heatmap(shown, heat)))
    panel.scatter(truth[0] * scale, truth[1] * scale, s=60, facecolors="none", edgecolors="white", linewidths=1.5)
    panel.set_title(title, fontsize=8)


def _small(image: Image.Image) -> tuple[Image.Image, float]:
    scale = _PANEL / max(image.size)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    return image.convert("RGB").resize(size), scale


def _number(cell: Cell) -> float:
    assert isinstance(cell.value, float | int)
    return float(cell.value)


def _whiskers(cell: Cell) -> list[list[float]]:
    assert cell.low is not None
    assert cell.high is not None
    return [[max(0.0, _number(cell) - cell.low)], [max(0.0, cell.high - _number(cell))]]


def _word_table(result: TableResult) -> Figure:
    """Draw a table that holds no numbers."""
    figure = Figure(figsize=(7, 0.6 + 0.2 * len(result.rows)), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_title(f"{result.title} ({QUOTED})", fontsize=10)
    text = [[row.name, *map(str, row.cells)] for row in result.rows]
    drawn = axes.table(text, colLabels=["row", *result.columns], loc="upper center", cellLoc="left", colLoc="left")
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(7)
    drawn.auto_set_column_width(list(range(len(result.columns) + 1)))
    return figure
