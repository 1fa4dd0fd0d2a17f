"""The filter over the frames of a video, against least squares written as a loop and against facts about it."""

import numpy as np
import pytest

from mambamatcher.tools.tracks import WIDTH, Tracks, make_tracks, smooth, smooth_results


def tracks(points, confidence=None, times=None, present=None) -> Tracks:
    """Make the path of one point from its places, in frames a tenth of a second apart unless told."""
    places = np.asarray(points, dtype=np.float64).reshape(len(points), 1, 2)
    count = len(places)
    return Tracks(
        names=("nose",),
        times=np.arange(count) / 10 if times is None else np.asarray(times, dtype=np.float64),
        points=places,
        confidence=np.ones((count, 1)) if confidence is None else np.asarray(confidence, dtype=np.float64)[:, None],
        present=np.ones((count, 1), dtype=bool) if present is None else np.asarray(present)[:, None],
    )


def slow_smooth(given: Tracks, sigma: float) -> np.ndarray:
    """Fit a line around each frame with NumPy's least squares."""
    found = np.zeros_like(given.points[:, 0])
    for frame, time in enumerate(given.times):
        rows, places, scale = [], [], []
        for other, at in enumerate(given.times):
            if given.present[other, 0] and abs(at - time) <= 3 * sigma + 1e-12:
                rows.append([1.0, at - time])
                places.append(given.points[other, 0])
                scale.append(np.sqrt(given.confidence[other, 0] * np.exp(-((at - time) ** 2) / (2 * sigma**2))))
        weight = np.array(scale)[:, None]
        found[frame] = np.linalg.lstsq(np.array(rows) * weight, np.array(places) * weight, rcond=None)[0][0]
    return found


def test_it_is_least_squares_weighted_by_confidence_and_nearness_in_time():
    generator = np.random.default_rng(0)
    times = np.cumsum(generator.choice([0.04, 0.05, 0.11], 41))
    given = tracks(
        generator.uniform(0, 300, (41, 2)), generator.uniform(0.05, 1, 41), times, generator.random(41) > 0.2
    )
    sigma = WIDTH * float(np.median(np.diff(times)))
    np.testing.assert_allclose(smooth(given)[:, 0], slow_smooth(given, sigma), atol=1e-7)


def test_three_frames_by_hand():
    given = tracks([(0, 0), (6, 0), (0, 0)], confidence=[0.5, 1.0, 0.5])
    weight = 0.5 * np.exp(-1 / (2 * WIDTH**2))  # of each neighbour; the line in the middle is level by symmetry
    assert smooth(given)[1, 0, 0] == pytest.approx(6 / (1 + 2 * weight))


def test_a_point_of_constant_speed_stays_where_it_is_whatever_the_confidences_and_times_are():
    generator = np.random.default_rng(1)
    times = np.cumsum(generator.uniform(0.02, 0.2, 50))
    path = np.stack([5 + 31 * times, 200 - 17 * times], axis=1)
    given = tracks(path, generator.uniform(0.01, 1, 50), times)
    np.testing.assert_allclose(smooth(given)[:, 0], path, atol=1e-6)


def test_it_delays_nothing_a_symmetric_path_stays_symmetric():
    bump = np.exp(-0.5 * ((np.arange(31) - 15) / 2.5) ** 2)
    confidence = 0.5 + 0.4 * np.cos(np.linspace(-3, 3, 31))
    found = smooth(tracks(np.stack([100 * bump, 50 * bump], axis=1), confidence))[:, 0]
    np.testing.assert_allclose(found, found[::-1], atol=1e-9)
    assert found[:, 0].argmax() == 15
    backwards = np.random.default_rng(2).uniform(0, 99, (31, 2))
    np.testing.assert_allclose(smooth(tracks(backwards))[:, 0], smooth(tracks(backwards[::-1]))[::-1, 0], atol=1e-9)


def test_noise_becomes_less_and_a_doubtful_outlier_loses_its_weight():
    generator = np.random.default_rng(3)
    still = np.full((400, 2), 50.0) + generator.normal(0, 3, (400, 2))
    assert smooth(tracks(still))[20:-20].std() < 3 / 2
    confidence = np.full(400, 0.9)
    still[200], confidence[200] = (350, 350), 0.01
    doubted = np.abs(smooth(tracks(still, confidence))[190:210, 0] - 50).max()
    trusted = np.abs(smooth(tracks(still))[190:210, 0] - 50).max()
    assert doubted < 5 < trusted


def test_one_frame_and_frames_of_one_time_are_left_as_they_are():
    for times in ([0.0], [1.0, 1.0, 1.0]):
        path = np.arange(2.0 * len(times)).reshape(-1, 2)
        np.testing.assert_array_equal(smooth(tracks(path, times=times))[:, 0], path)
    assert smooth(tracks(np.zeros((0, 2)))).shape == (0, 1, 2)
    assert np.isfinite(smooth(tracks([(1, 2), (3, 4)], confidence=[0, 0]))).all()


def result(frame, x, **more):
    point = {"name": "nose", "x": float(x), "y": 10.0, "confidence": 0.5, "matched": True}
    return {"image": f"a.mp4#{frame}", "size": [100, 50], "frame": frame, "time": frame / 10, "points": [point], **more}


def test_corrected_absent_and_unreadable_frames_stay_as_they_are():
    results = [result(number, x) for number, x in enumerate([20, 60, 20, 60, 20, 60, 20])]
    results[3] = result(3, 60, status="corrected")
    results[5]["points"][0]["absent"] = True
    results.append({"image": "a.mp4#7", "error": "gone"})
    found = smooth_results(results)
    assert [found[number] == results[number] for number in range(8)] == [number in (3, 5, 7) for number in range(8)]
    moved = found[2]["points"][0]
    assert 25 < moved["x"] < 55
    assert {key: moved[key] for key in ("name", "confidence", "matched")} == {
        "name": "nose",
        "confidence": 0.5,
        "matched": True,
    }
    assert results[2]["points"][0]["x"] == 20.0
    assert all(0 <= each["points"][0]["x"] <= 100 for each in found[:7])


def test_tracks_mark_what_a_frame_does_not_show():
    results = [result(0, 1), result(1, 2)]
    results[1]["points"].append({"name": "tail", "x": 3.0, "y": 4.0, "confidence": 0.2, "matched": False})
    found = make_tracks(results)
    assert found.names == ("nose", "tail")
    np.testing.assert_array_equal(found.present, [[True, False], [True, True]])
    np.testing.assert_array_equal(found.points[1], [[2, 10], [3, 4]])
