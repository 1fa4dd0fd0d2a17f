"""Figures of the correlation map before and after the refinement."""

import numpy as np
import torch
from matplotlib.figure import Figure

from mambamatcher.paper.attribution import ORDERS, area_under, attribute, cumulative_share
from mambamatcher.paper.charts import panel_grid, show_heat
from mambamatcher.paper.figure_inputs import ALPHA, SHOWN, FigureInputs, pck, read_out, show_pair
from mambamatcher.paper.opened_pair import evenly_spaced, predicted_points, refined_levels, scores_of_point
from mambamatcher.paper.output import FigureResult
from mambamatcher.paper.removal import SHARES, removal_curve, remove_strongest


def heatmaps(inputs: FigureInputs) -> FigureResult:
    """Show the last level and the refined map of a keypoint, and measure what the refinement gains."""
    model, opened = inputs.matcher.model, inputs.opened()
    figure, panels = panel_grid(min(SHOWN, len(opened)), 4)
    for pair, row in zip(evenly_spaced(opened, SHOWN), panels, strict=True):
        with torch.no_grad():
            refined = model.correlation(pair.correlation)
        both = torch.cat([pair.correlation[0, -1:], refined])
        initial, final = scores_of_point(pair, both, 0, model.config.transfer.radius)
        show_pair(row[:2], pair, 0)
        show_heat(row[2], pair.target, initial, pair.truth[0], "initial (last level)")
        show_heat(row[3], pair.target, final, pair.truth[0], "refined")
    last = pck(opened, lambda pair: read_out(inputs.matcher, pair, pair.correlation[:, -1]))
    mean = pck(opened, lambda pair: read_out(inputs.matcher, pair, pair.correlation.mean(dim=1)))
    ours = pck(opened, lambda pair: predicted_points(pair, model))
    numbers = {"last level": last, "mean of levels": mean, "refined": ours, "protocol": inputs.protocol}
    text = (
        f"PCK@0.10 read out of the last level {last:.1f}, of the mean of all levels {mean:.1f}, of the refined map "
        f"{ours:.1f} ({inputs.protocol}; measured here, the paper gives no number). Rings: the truth."
    )
    return FigureResult(
        name="heatmaps",
        title="Initial against refined scores of a keypoint",
        label="fig:mamba_viz",
        numbers=numbers,
        text=text,
        drawing=figure,
    )


def levels(inputs: FigureInputs) -> FigureResult:
    """Show every level of one keypoint before and after the refinement."""
    pair, model = inputs.opened(1)[0], inputs.matcher.model
    after = refined_levels(model.correlation, pair.correlation)
    radius = model.config.transfer.radius
    blocks = [scores_of_point(pair, maps, 0, radius) for maps in (pair.correlation[0], after)]
    with torch.no_grad():
        final = scores_of_point(pair, model.correlation(pair.correlation), 0, radius)[0]
    count = len(after)
    figure, panels = panel_grid(1 + -(-count // 4), 9)
    show_pair(panels[0, 1:3], pair, 0)
    show_heat(panels[0, 5], pair.target, final, pair.truth[0], "refined, all levels")
    for block, (maps, name) in enumerate(zip(blocks, ("before", "after"), strict=True)):
        for level in range(count):
            panel = panels[1 + level // 4, level % 4 + 5 * block]
            show_heat(panel, pair.target, maps[level], pair.truth[0], f"{name}, level {level + 1}")
    agreement = []
    weights = model.correlation.get_submodule("project").get_parameter("weight")[0].tolist()
    for before, later in zip(*blocks, strict=True):
        agreement.append(float(np.corrcoef(before.ravel(), later.ravel())[0, 1]))
    numbers = {"pair": pair.pair.name, "correlation of before and after": agreement, "projection weights": weights}
    text = (
        f"All {count} levels of {pair.pair.name}, keypoint {pair.pair.names[0]}: left before, right after the scan. "
        f"The projection weighs the levels {', '.join(f'{weight:+.2f}' for weight in weights)}. Measured here."
    )
    return FigureResult(
        name="levels",
        title="Levels before and after refinement",
        label="fig:appendix_mamba_qual_1",
        numbers=numbers,
        text=text,
        drawing=figure,
    )


def removal(inputs: FigureInputs) -> FigureResult:
    """Remove the strongest scores and measure the PCK that is left."""
    model, opened = inputs.matcher.model, inputs.opened()
    curve = removal_curve(model, opened, ALPHA)
    figure, panels = panel_grid(min(SHOWN, len(opened)), 3 + len(SHARES))
    for pair, row in zip(evenly_spaced(opened, SHOWN), panels, strict=True):
        show_pair(row[:2], pair, 0)
        for panel, share in zip(row[2:], SHARES, strict=False):
            with torch.no_grad():
                refined = model.correlation(remove_strongest(pair.correlation, share))
            scores = scores_of_point(pair, refined, 0, model.config.transfer.radius)[0]
            show_heat(panel, pair.target, scores, pair.truth[0], f"without top {100 * share:g} %")
    _plot_removal(figure, panels, curve)
    values = ", ".join(
        f"{100 * each['removed']:g} % {each['pck']:.1f} ({each['low']:.1f} to {each['high']:.1f})" for each in curve
    )
    text = f"PCK@0.10 after removing the strongest: {values} ({inputs.protocol}; measured here)."
    numbers = {"curve": curve, "protocol": inputs.protocol}
    return FigureResult(
        name="removal",
        title="Strongest scores removed",
        label="fig:top_k_ablation",
        numbers=numbers,
        text=text,
        drawing=figure,
    )


def _plot_removal(figure: Figure, panels: np.ndarray, curve: list[dict[str, float]]) -> None:
    """Put a plot of the curve in place of the last column of panels."""
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


def attribution(inputs: FigureInputs) -> FigureResult:
    """Show how fast attribution accumulates over the tokens in three orders."""
    model, opened = inputs.matcher.model, inputs.opened(SHOWN)
    figure, panels = panel_grid(len(opened), 3)
    areas: dict[str, list[float]] = {order: [] for order in ORDERS}
    for pair, row in zip(opened, panels, strict=True):
        with torch.no_grad():
            refined = model.correlation(pair.correlation)
        scores = scores_of_point(pair, refined, 0, model.config.transfer.radius)[0]
        peak = np.unravel_index(scores.argmax(), scores.shape)
        cell = int(peak[0]), int(peak[1])
        found = attribute(model.correlation, pair.correlation, pair.points[0, 0], cell, model.config.transfer.radius)
        show_pair(row[:2], pair, 0)
        row[2].set_axis_on()
        for order in ORDERS:
            curve = cumulative_share(found.tokens, pair.correlation[0, -1], order)
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
        f"{len(opened)} keypoints of {inputs.protocol.split(',')[0]} (measured here). Integrated gradients against a "
        f"map of zeros multiply each gradient by the score itself, so higher scores get more of it by construction."
    )
    numbers = {"areas": areas, "means": means, "protocol": inputs.protocol}
    return FigureResult(
        name="attribution",
        title="Cumulative attribution",
        label="fig:cumulative_contribution",
        numbers=numbers,
        text=text,
        drawing=figure,
    )
