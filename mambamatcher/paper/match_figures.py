"""Figures of where models put keypoints, and where they fail."""

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.paper.charts import ASKED, RIGHT, WRONG, picture_grid, show_points
from mambamatcher.paper.failures import INSTANCE, SIDE, Census, Failure, find_failures
from mambamatcher.paper.figure_inputs import ALPHA, SHOWN, Subject, pck
from mambamatcher.paper.opened_pair import is_right, open_case, predicted_points, spread
from mambamatcher.paper.results import FigureResult


def aggregators(subject: Subject) -> FigureResult:
    """Compare models side by side, right matches green and wrong ones red."""
    return _compared(subject, "aggregators", "Correlation aggregations compared", "fig:main_qual")


def scan_orders(subject: Subject) -> FigureResult:
    """Compare models that differ in their scan order."""
    return _compared(subject, "scan-orders", "Scan orders compared", "fig:scan_comparison")


def _compared(subject: Subject, name: str, title: str, label: str) -> FigureResult:
    if len(subject.matchers) < 2:
        raise InputError(
            f"the figure {name} compares models: give --model twice or more, for example the folders that "
            f"`mambamatcher reproduce correlation` leaves in runs/reproduce/ROW/model"
        )
    shown = spread(subject.pairs, SHOWN)
    figure, panels = picture_grid(len(shown), 2 + len(subject.matchers))
    numbers: dict[str, object] = {"protocol": subject.where}
    for column, (model_name, matcher) in enumerate(subject.matchers.items(), start=2):
        cases = [open_case(matcher, pair) for pair in subject.pairs]
        numbers[model_name] = pck(cases, lambda case, m=matcher: predicted_points(case, m.model))  # type: ignore[misc]
        for row, case in zip(panels, [case for case in cases if case.pair in shown], strict=True):
            colours = [ASKED] * len(case.truth)
            show_points(row[0], case.source, case.pair.points()[0], colours, "source")
            show_points(row[1], case.target, case.truth, colours, "truth")
            found = predicted_points(case, matcher.model)
            right = [RIGHT if each else WRONG for each in is_right(case, found, ALPHA)]
            show_points(row[column], case.target, found, right, model_name)
    values = ", ".join(f"{key} {value:.1f}" for key, value in numbers.items() if isinstance(value, float))
    return FigureResult(
        name=name,
        title=title,
        label=label,
        numbers=numbers,
        text=f"PCK@0.10: {values} ({subject.where}; measured here).",
        picture=figure,
    )


def failures(subject: Subject) -> FigureResult:
    """Find left taken for right, and right parts on wrong instances."""
    census = find_failures(subject.matcher, subject.pairs, ALPHA)
    kinds = (SIDE, INSTANCE)
    shown = {kind: found for kind in kinds if (found := _one_a_pair(census, kind)[:SHOWN])}
    figure, panels = picture_grid(max(1, len(shown)), 2 * SHOWN)
    for row, (kind, chosen) in zip(panels, shown.items(), strict=False):  # without any, an empty picture
        for place, failure in enumerate(chosen):
            case, k = failure.case, failure.keypoint
            show_points(row[2 * place], case.source, case.pair.points()[0][k : k + 1], [ASKED], case.pair.names[k])
            both = np.stack([case.truth[k], failure.predicted])
            show_points(row[2 * place + 1], case.target, both, [RIGHT, WRONG], kind)
    numbers = {
        "keypoints": census.keypoints,
        "wrong": census.wrong,
        "wrong with a side": census.wrong_with_side,
        "protocol": subject.where,
    }
    numbers |= {kind: census.count(kind) for kind in kinds}
    text = (
        f"Of {census.keypoints} keypoints {census.wrong} are wrong. Of these, {census.wrong_with_side} have a name "
        f"that says left or right, and {census.count(SIDE)} of them lie on the counterpart of the other side; "
        f"{census.count(INSTANCE)} lie outside the object where the way back leads to the point asked for "
        f"({subject.where}; measured here, the paper gives no number). Green: truth, red: found."
    )
    return FigureResult(
        name="failures",
        title="Failure cases, found automatically",
        label="fig:failure_case",
        numbers=numbers,
        text=text,
        picture=figure,
    )


def _one_a_pair(census: Census, kind: str) -> list[Failure]:
    """Return each pair's first failure of a kind, so that no pair is shown twice."""
    return list({id(each.case): each for each in reversed(census.failures) if each.kind == kind}.values())[::-1]
