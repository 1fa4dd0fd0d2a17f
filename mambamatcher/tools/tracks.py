"""The paths of points through the frames of a video, and a filter that smooths them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from mambamatcher.jobs.journal import Result

WIDTH = 2.0  # standard deviation of the filter, in intervals between frames
_REACH = 3.0  # standard deviations, beyond which frames have no weight
_LEAST = 1e-9  # confidence, so that nothing is divided by zero


@dataclass(frozen=True, kw_only=True)
class Tracks:
    """Each point in each frame, in pixels of the frame; what `present` does not mark means nothing."""

    names: tuple[str, ...]
    times: Float[np.ndarray, " frame"]
    points: Float[np.ndarray, "frame keypoint 2"]
    confidence: Float[np.ndarray, "frame keypoint"]
    present: Bool[np.ndarray, "frame keypoint"]


def make_tracks(results: Sequence[Result]) -> Tracks:
    """Arrange the results of frames by point and frame; frames that could not be read are left out."""
    readable = [result for result in results if "error" not in result]
    names = tuple(dict.fromkeys(point["name"] for result in readable for point in result["points"]))
    columns = {name: column for column, name in enumerate(names)}
    shape = len(readable), len(names)
    points, confidence, present = np.zeros((*shape, 2)), np.zeros(shape), np.zeros(shape, dtype=bool)
    for row, result in enumerate(readable):
        for point in result["points"]:
            column = columns[point["name"]]
            points[row, column] = point["x"], point["y"]
            confidence[row, column] = point["confidence"]
            present[row, column] = not point.get("absent")
    times = np.array([result["time"] for result in readable], dtype=np.float64)
    return Tracks(names=names, times=times, points=points, confidence=confidence, present=present)


def smooth(tracks: Tracks, width: float = WIDTH) -> Float[np.ndarray, "frame keypoint 2"]:
    """Smooth paths without delay: at each frame, fit a line to the path around it and take its value there.

    The fit is least squares, weighted by confidence and by nearness in time. At time t it minimises over a and b

        sum over frames s of  c_s exp(-(t_s - t)² / 2σ²) |p_s - a - b (t_s - t)|²

    and a is the smoothed point. The filter looks as far ahead as back, so that it delays nothing, and a point that
    moves at constant speed stays exactly where it is, at both ends and whatever the confidences are.

    Args:
        tracks: The paths.
        width: σ in intervals between frames; the median interval counts.

    Returns:
        The smoothed points. What is not present has no influence, and its values mean nothing.
    """
    steps = np.diff(tracks.times)
    sigma = width * float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    trust = np.where(tracks.present, tracks.confidence.clip(_LEAST), 0.0)
    first = np.searchsorted(tracks.times, tracks.times - _REACH * sigma, side="left")
    end = np.searchsorted(tracks.times, tracks.times + _REACH * sigma, side="right")
    smoothed = tracks.points.copy()
    for frame, time in enumerate(tracks.times):
        near = slice(first[frame], end[frame])
        distance = (tracks.times[near] - time) / sigma
        weight = trust[near] * np.exp(-0.5 * distance**2)[:, None]  # [near, keypoint]
        moments = np.stack([(weight * distance[:, None] ** power).sum(axis=0) for power in range(3)])
        mean, slope = (
            np.einsum("nk,nkc->kc", weight * distance[:, None] ** power, tracks.points[near]) for power in range(2)
        )
        spread = moments[0] * moments[2] - moments[1] ** 2
        line = spread > 1e-9 * moments[0] ** 2  # else one frame has all the weight, and there is no line to fit
        fitted = (moments[2, line, None] * mean[line] - moments[1, line, None] * slope[line]) / spread[line, None]
        smoothed[frame, line] = fitted
    return smoothed


def smooth_results(results: Sequence[Result]) -> list[Result]:
    """Return the results with smoothed points. Frames that somebody corrected stay as they are, as do confidences."""
    tracks = make_tracks(results)
    rows = iter(smooth(tracks))
    smoothed: list[Result] = []
    for result in results:
        if "error" in result:
            smoothed.append(result)
            continue
        places = dict(zip(tracks.names, next(rows).clip(0, result["size"]).round(3).tolist(), strict=True))
        if "status" not in result:
            points = [
                point if point.get("absent") else {**point, **dict(zip("xy", places[point["name"]], strict=True))}
                for point in result["points"]
            ]
            result = {**result, "points": points}
        smoothed.append(result)
    return smoothed
