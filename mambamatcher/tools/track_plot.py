"""A plot of the path of each point through a video, and of its confidence."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mambamatcher.io.drawing import CONFIDENCE_COLOURS, plain_name
from mambamatcher.tools.tracks import Tracks

POINTS = 50  # that are drawn; more would not fit in a picture
FRAMES = 2000  # that are drawn; the picture has fewer columns
_X, _Y = "#0072b2", "#cc79a7"


def plot_tracks(
    path: Path, tracks: Tracks, smoothed: Float[np.ndarray, "frame keypoint 2"] | None, threshold: float
) -> None:
    """Write a PNG: one row per point, with its x and y over time on the left and its confidence on the right.

    Dots have the colour of their confidence. Where there are smoothed paths, these are the lines.

    Args:
        path: The file, over one that is there.
        tracks: The paths as they were found.
        smoothed: The smoothed paths, if there are any.
        threshold: The confidence below which a point counts as not matched.
    """
    from matplotlib.figure import Figure  # not pyplot: no window, no global state

    names = tracks.names[:POINTS]
    step = -(-len(tracks.times) // FRAMES)
    figure = Figure(figsize=(11, 0.9 + 1.25 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 2, squeeze=False, sharex=True, width_ratios=(3, 2))
    for column, name in enumerate(names):
        shown = np.flatnonzero(tracks.present[:, column])[::step]
        lines = (tracks.points if smoothed is None else smoothed)[shown, column]
        _draw_path(panels[column, 0], tracks, shown, column, lines)
        _draw_confidence(panels[column, 1], tracks, shown, column, threshold)
        panels[column, 0].set_title(plain_name(name), fontsize=9, loc="left", parse_math=False)
    panels[0, 0].legend(fontsize=7, loc="upper right", ncols=2)
    panels[0, 1].set_title("confidence", fontsize=9, loc="left")
    for panel in panels[-1]:
        panel.set_xlabel("time (s)", fontsize=8)
    left_out = f"; the first {POINTS} of {len(tracks.names)} points" * (len(tracks.names) > POINTS)
    kind = "lines: smoothed, dots: as found" if smoothed is not None else "as found"
    figure.suptitle(f"{len(tracks.times)} frames, {kind}{left_out}", fontsize=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about letters of names that the font does not have
        figure.savefig(path, dpi=100, format="png")


def _draw_path(panel: Any, tracks: Tracks, shown: np.ndarray, column: int, lines: Float[np.ndarray, "frame 2"]) -> None:
    for axis, (label, colour) in enumerate((("x (px)", _X), ("y (px)", _Y))):
        panel.plot(tracks.times[shown], lines[:, axis], color=colour, linewidth=1.2, label=label)
        places = tracks.points[shown, column, axis]
        _scatter(panel, tracks.times[shown], places, tracks.confidence[shown, column])
    panel.tick_params(labelsize=7)
    panel.grid(alpha=0.3)


def _draw_confidence(panel: Any, tracks: Tracks, shown: np.ndarray, column: int, threshold: float) -> None:
    confidence = tracks.confidence[shown, column]
    panel.plot(tracks.times[shown], confidence, color="0.6", linewidth=0.8)
    _scatter(panel, tracks.times[shown], confidence, confidence)
    panel.axhline(threshold, color="0.3", linewidth=0.8, linestyle="--")
    panel.set_ylim(-0.03, 1.03)
    panel.tick_params(labelsize=7)
    panel.grid(alpha=0.3)


def _scatter(panel: Any, times: np.ndarray, values: np.ndarray, confidence: np.ndarray) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    stops = [(stop, tuple(channel / 255 for channel in colour)) for stop, colour in CONFIDENCE_COLOURS]
    colours = LinearSegmentedColormap.from_list("confidence", stops)
    panel.scatter(
        times, values, c=confidence, cmap=colours, vmin=0, vmax=1, s=9, linewidths=0.2, edgecolors="black", zorder=3
    )
