"""The files that `propagate` writes of a video beside those of any run."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from mambamatcher.io.drawing import draw_points
from mambamatcher.io.images import load_image
from mambamatcher.io.points import write_points
from mambamatcher.io.video_writing import write_video
from mambamatcher.io.written import WrittenFiles
from mambamatcher.jobs.journal import Result
from mambamatcher.jobs.progress import track
from mambamatcher.jobs.source import Source
from mambamatcher.tools.outputs import point_set
from mambamatcher.tools.track_plot import plot_tracks
from mambamatcher.tools.tracks import Tracks, make_tracks, smooth_results

DLC, OVERLAY, PLOT = "points.dlc.csv", "overlay.mp4", "paths.png"
SMOOTHED = {"smoothed.csv": "csv", "smoothed.coco.json": "coco", "smoothed.dlc.csv": "deeplabcut"}  # with their formats
VIDEO_FORMATS = (DLC, OVERLAY, PLOT, *SMOOTHED)


def write_video_formats(
    written: WrittenFiles, targets: Source, results: Sequence[Result], threshold: float, smooth: bool
) -> None:
    """Write the points of a video as DeepLabCut's CSV, an overlay video and a plot.

    Args:
        written: The record of the folder.
        targets: The frames.
        results: Their results, as they were found.
        threshold: The confidence below which a point counts as not matched.
        smooth: Whether to write smoothed points too and to draw these; a folder that has some always gets new ones.
    """
    written.fill(DLC, partial(_write_points, results=results, format="deeplabcut"))
    tracks, drawn, lines = make_tracks(results), results, None
    if smooth or any(map(written.has, SMOOTHED)):
        drawn = smooth_results(results)
        lines = make_tracks(drawn).points
        for name, format in SMOOTHED.items():
            written.fill(name, partial(_write_points, results=drawn, format=format))
    if len(tracks.times):
        written.fill(PLOT, partial(plot_tracks, tracks=tracks, smoothed=lines, threshold=threshold))
        written.fill(OVERLAY, partial(write_overlay, targets=targets, results=drawn, rate=_rate(tracks)))


def write_overlay(path: Path, targets: Source, results: Sequence[Result], rate: float) -> None:
    """Write a video of the frames with their points, each at its time."""
    by_name = {result["image"]: result for result in results if "error" not in result}

    def drawn() -> Iterator[tuple[Image.Image, float]]:
        for name, image in targets.find(by_name):
            yield _draw(load_image(image), by_name[name]), by_name[name]["time"]

    write_video(path, track(drawn(), len(by_name), "frames of the overlay"), rate)


def _write_points(path: Path, results: Sequence[Result], format: str) -> None:
    """Write the readable results; DeepLabCut's likelihood is our confidence."""
    found = {result["image"]: point_set(result) for result in results if "error" not in result}
    write_points(path, found, overwrite=True, format=format)


def _draw(image: Image.Image, result: Result) -> Image.Image:
    shown = [point for point in result["points"] if not point.get("absent")]
    return draw_points(
        image,
        np.array([(point["x"], point["y"]) for point in shown], dtype=np.float64).reshape(-1, 2),
        np.array([point["confidence"] for point in shown], dtype=np.float64),
        np.array([point["matched"] for point in shown], dtype=bool),
        [point["name"] for point in shown],
        f"frame {result['frame']}   {result['time']:.2f} s",
    )


def _rate(tracks: Tracks) -> float:
    """Return frames per second of the frames that were used; a single frame is shown for a second."""
    steps = np.diff(tracks.times)
    return float(1 / np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
