"""Every figure of the paper that shows results, by name, and those that show predicted keypoints.

The paper's two diagrams of the method are left out. Figures of the correlation map are in `map_figures`.
"""

from collections.abc import Callable

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.paper import map_figures
from mambamatcher.paper.charts import CORRECT, QUERY, WRONG, panel_grid, show_points
from mambamatcher.paper.failures import INSTANCE, SIDE, Census, Failure, find_failures
from mambamatcher.paper.figure_inputs import ALPHA, SHOWN, FigureInputs, pck
from mambamatcher.paper.opened_pair import evenly_spaced, is_correct, open_pair, predicted_points
from mambamatcher.paper.output import FigureResult
from mambamatcher.registry import Registry

FIGURES: Registry[Callable[[FigureInputs], FigureResult]] = Registry("figure")

FIGURES.register("heatmaps")(map_figures.heatmaps)
FIGURES.register("levels")(map_figures.levels)


@FIGURES.register("aggregators")
def aggregators(inputs: FigureInputs) -> FigureResult:
    """Compare models side by side, correct keypoints in green and wrong ones in red."""
    return _compare(inputs, "aggregators", "Correlation aggregations compared", "fig:main_qual")


@FIGURES.register("scan-orders")
def scan_orders(inputs: FigureInputs) -> FigureResult:
    """Compare models with different scan orders."""
    return _compare(inputs, "scan-orders", "Scan orders compared", "fig:scan_comparison")


def _compare(inputs: FigureInputs, name: str, title: str, label: str) -> FigureResult:
    if len(inputs.matchers) < 2:
        raise InputError(
            f"the figure {name} compares models, got {len(inputs.matchers)}; give --model twice or more, for example "
            f"the folders runs/reproduce/ROW/model that `mambamatcher reproduce correlation` writes"
        )
    shown = evenly_spaced(inputs.pairs, SHOWN)
    figure, panels = panel_grid(len(shown), 2 + len(inputs.matchers))
    numbers: dict[str, object] = {"protocol": inputs.protocol}
    for column, (model_name, matcher) in enumerate(inputs.matchers.items(), start=2):
        opened = [open_pair(matcher, pair) for pair in inputs.pairs]
        numbers[model_name] = pck(opened, lambda pair, m=matcher: predicted_points(pair, m.model))  # type: ignore[misc]
        for row, each in zip(panels, [each for each in opened if each.pair in shown], strict=True):
            colours = [QUERY] * len(each.truth)
            show_points(row[0], each.source, each.pair.points()[0], colours, "source")
            show_points(row[1], each.target, each.truth, colours, "truth")
            found = predicted_points(each, matcher.model)
            colours = [CORRECT if correct else WRONG for correct in is_correct(each, found, ALPHA)]
            show_points(row[column], each.target, found, colours, model_name)
    values = ", ".join(f"{key} {value:.1f}" for key, value in numbers.items() if isinstance(value, float))
    return FigureResult(
        name=name,
        title=title,
        label=label,
        numbers=numbers,
        text=f"PCK@0.10: {values} ({inputs.protocol}; measured here).",
        drawing=figure,
    )


@FIGURES.register("failures")
def failures(inputs: FigureInputs) -> FigureResult:
    """Find left/right confusions, and correct parts on a wrong instance."""
    census = find_failures(inputs.matcher, inputs.pairs, ALPHA)
    kinds = (SIDE, INSTANCE)
    shown = {kind: found for kind in kinds if (found := _one_per_pair(census, kind)[:SHOWN])}
    figure, panels = panel_grid(max(1, len(shown)), 2 * SHOWN)
    for row, (kind, chosen) in zip(panels, shown.items(), strict=False):  # empty if there are no failures
        for number, failure in enumerate(chosen):
            opened, k = failure.opened, failure.keypoint
            query = opened.pair.points()[0][k : k + 1]
            show_points(row[2 * number], opened.source, query, [QUERY], opened.pair.names[k])
            both = np.stack([opened.truth[k], failure.predicted])
            show_points(row[2 * number + 1], opened.target, both, [CORRECT, WRONG], kind)
    numbers = {
        "keypoints": census.keypoints,
        "wrong": census.wrong,
        "wrong with a side": census.wrong_with_side,
        "protocol": inputs.protocol,
    }
    numbers |= {kind: census.count(kind) for kind in kinds}
    text = (
        f"Of {census.keypoints} keypoints {census.wrong} are wrong. Of these, {census.wrong_with_side} have a name "
        f"that says left or right, and {census.count(SIDE)} of them lie on the counterpart of the other side; "
        f"{census.count(INSTANCE)} lie outside the object where the way back leads to the point asked for "
        f"({inputs.protocol}; measured here, the paper gives no number). Green: truth, red: found."
    )
    return FigureResult(
        name="failures",
        title="Failure cases, found automatically",
        label="fig:failure_case",
        numbers=numbers,
        text=text,
        drawing=figure,
    )


FIGURES.register("removal")(map_figures.removal)
FIGURES.register("attribution")(map_figures.attribution)


def _one_per_pair(census: Census, kind: str) -> list[Failure]:
    """Return the first failure of each pair, so that no pair is shown twice."""
    return list({id(each.opened): each for each in reversed(census.failures) if each.kind == kind}.values())[::-1]
