"""Figures of what happens inside the correlation map."""

import numpy as np
import torch

from mambamatcher.paper.attribution import ORDERS, area_under, attribute, cumulative_share
from mambamatcher.paper.charts import picture_grid, show_heat
from mambamatcher.paper.figure_inputs import ALPHA, SHOWN, Subject, pck, read_out, show_pair
from mambamatcher.paper.opened_pair import predicted_points, refined_levels, scores_of_point, spread
from mambamatcher.paper.removal import SHARES, removal_curve, remove_strongest
from mambamatcher.paper.results import FigureResult


def heatmaps(subject: Subject) -> FigureResult:
    """Show the last level and the refined map of a keypoint, and count what the refinement puts right."""
    model, cases = subject.matcher.model, subject.cases()
    figure, panels = picture_grid(min(SHOWN, len(cases)), 4)
    for case, row in zip(spread(cases, SHOWN), panels, strict=True):
        with torch.no_grad():
            refined = model.correlation(case.correlation)
        both = torch.cat([case.correlation[0, -1:], refined])
        initial, final = scores_of_point(case, both, 0, model.config.transfer.radius)
        show_pair(row[:2], case, 0)
        show_heat(row[2], case.target, initial, case.truth[0], "initial (last level)")
        show_heat(row[3], case.target, final, case.truth[0], "refined")
    last = pck(cases, lambda case: read_out(subject.matcher, case, case.correlation[:, -1]))
    mean = pck(cases, lambda case: read_out(subject.matcher, case, case.correlation.mean(dim=1)))
    ours = pck(cases, lambda case: predicted_points(case, model))
    numbers = {"last level": last, "mean of levels": mean, "refined": ours, "protocol": subject.where}
    text = (
        f"PCK@0.10 read out of the last level {last:.1f}, of the mean of all levels {mean:.1f}, of the refined map "
        f"{ours:.1f} ({subject.where}; measured here, the paper gives no number). Rings: the truth."
    )
    return FigureResult(
        name="heatmaps",
        title="Initial against refined scores of a keypoint",
        label="fig:mamba_viz",
        numbers=numbers,
        text=text,
        picture=figure,
    )


def levels(subject: Subject) -> FigureResult:
    """Show every level before and after the refinement for one keypoint."""
    case, model = subject.cases(1)[0], subject.matcher.model
    after = refined_levels(model.correlation, case.correlation)
    radius = model.config.transfer.radius
    blocks = [scores_of_point(case, maps, 0, radius) for maps in (case.correlation[0], after)]
    with torch.no_grad():
        final = scores_of_point(case, model.correlation(case.correlation), 0, radius)[0]
    count = len(after)
    figure, panels = picture_grid(1 + -(-count // 4), 9)
    show_pair(panels[0, 1:3], case, 0)
    show_heat(panels[0, 5], case.target, final, case.truth[0], "refined, all levels")
    for block, (maps, name) in enumerate(zip(blocks, ("before", "after"), strict=True)):
        for level in range(count):
            panel = panels[1 + level // 4, level % 4 + 5 * block]
            show_heat(panel, case.target, maps[level], case.truth[0], f"{name}, level {level + 1}")
    agreement = []
    weights = model.correlation.get_submodule("project").get_parameter("weight")[0].tolist()
    for before, later in zip(*blocks, strict=True):
        agreement.append(float(np.corrcoef(before.ravel(), later.ravel())[0, 1]))
    numbers = {"pair": case.pair.name, "correlation of before and after": agreement, "projection weights": weights}
    text = (
        f"All {count} levels of {case.pair.name}, keypoint {case.pair.names[0]}: left before, right after the scan. "
        f"The projection weighs the levels {', '.join(f'{weight:+.2f}' for weight in weights)}. Measured here."
    )
    return FigureResult(
        name="levels",
        title="Levels before and after refinement",
        label="fig:appendix_mamba_qual_1",
        numbers=numbers,
        text=text,
        picture=figure,
    )


def removal(subject: Subject) -> FigureResult:
    """Take the strongest scores away and see what is left."""
    model, cases = subject.matcher.model, subject.cases()
    curve = removal_curve(model, cases, ALPHA)
    figure, panels = picture_grid(min(SHOWN, len(cases)), 3 + len(SHARES))
    for case, row in zip(spread(cases, SHOWN), panels, strict=True):
        show_pair(row[:2], case, 0)
        for panel, share in zip(row[2:], SHARES, strict=False):
            with torch.no_grad():
                refined = model.correlation(remove_strongest(case.correlation, share))
            scores = scores_of_point(case, refined, 0, model.config.transfer.radius)[0]
            show_heat(panel, case.target, scores, case.truth[0], f"without top {100 * share:g} %")
    for panel in panels[:, -1]:
        panel.remove()
    plot = figure.add_subplot(panels[0, 0].get_gridspec()[:, -1])
    plot.set_box_aspect(1)
    plot.errorbar(
        [100 * each["removed"] for each in curve],
        [each["pck"] for each in curve],
        yerr=[[each["pck"] - each["low"] for each in curve], [each["high"] - each["pck"] for each in curve]],
        marker="o",
    )
    plot.set_xticks([100 * share for share in SHARES])
    plot.set_xlabel("% of the strongest scores removed", fontsize=7)
    plot.set_title("PCK@0.10", fontsize=8)
    plot.tick_params(labelsize=7)
    values = ", ".join(
        f"{100 * each['removed']:g} % {each['pck']:.1f} ({each['low']:.1f} to {each['high']:.1f})" for each in curve
    )
    text = f"PCK@0.10 after removing the strongest: {values} ({subject.where}; measured here)."
    numbers = {"curve": curve, "protocol": subject.where}
    return FigureResult(
        name="removal",
        title="Strongest scores removed",
        label="fig:top_k_ablation",
        numbers=numbers,
        text=text,
        picture=figure,
    )


def attribution(subject: Subject) -> FigureResult:
    """Show how fast attribution accumulates along three orders of the tokens."""
    model, cases = subject.matcher.model, subject.cases(SHOWN)
    figure, panels = picture_grid(len(cases), 3)
    areas: dict[str, list[float]] = {order: [] for order in ORDERS}
    for case, row in zip(cases, panels, strict=True):
        with torch.no_grad():
            refined = model.correlation(case.correlation)
        scores = scores_of_point(case, refined, 0, model.config.transfer.radius)[0]
        peak = np.unravel_index(scores.argmax(), scores.shape)
        cell = int(peak[0]), int(peak[1])
        found = attribute(model.correlation, case.correlation, case.points[0, 0], cell, model.config.transfer.radius)
        show_pair(row[:2], case, 0)
        row[2].set_axis_on()
        for order in ORDERS:
            curve = cumulative_share(found.tokens, case.correlation[0, -1], order)
            areas[order].append(area_under(curve))
            drawn = curve[:: max(1, len(curve) // 500)]
            row[2].plot(np.linspace(0, 1, len(drawn)), drawn, label=f"{order}, AUC {areas[order][-1]:.3f}")
        row[2].legend(fontsize=6)
        row[2].set_box_aspect(1)
        row[2].set_xlabel("share of the tokens", fontsize=7)
        row[2].set_title("share of all attribution", fontsize=8)
        row[2].tick_params(labelsize=7)
    means = {order: float(np.mean(values)) for order, values in areas.items()}
    text = (
        f"Mean area under the cumulative attribution: {', '.join(f'{k} {v:.3f}' for k, v in means.items())} over "
        f"{len(cases)} keypoints of {subject.where.split(',')[0]} (measured here). Integrated gradients against a map "
        f"of zeros multiply each gradient by the score itself, so higher scores get more of it by construction."
    )
    numbers = {"areas": areas, "means": means, "protocol": subject.where}
    return FigureResult(
        name="attribution",
        title="Cumulative attribution",
        label="fig:cumulative_contribution",
        numbers=numbers,
        text=text,
        picture=figure,
    )
