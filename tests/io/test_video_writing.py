"""Videos that are written, read back with PyAV."""

import av
import numpy as np
import pytest
from PIL import Image

from mambamatcher.io import video_writing
from mambamatcher.io.drawing import confidence_colour, draw_points
from mambamatcher.io.video_writing import write_video
from tests.clips import grey


def read(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [(frame.time, frame.to_ndarray(format="rgb24")) for frame in container.decode(stream)]
        return stream.codec_context.name, stream.average_rate, frames


@pytest.mark.parametrize(("encoder", "codec"), [("libx264", "h264"), ("mpeg4", "mpeg4")])
def test_images_are_shown_at_their_times(tmp_path, monkeypatch, encoder, codec):
    monkeypatch.setattr(video_writing, "_ENCODERS", {"no-such-encoder": {}, encoder: video_writing._ENCODERS[encoder]})
    times = [3.0, 3.04, 3.24, 3.28]
    levels = (40, 90, 140, 190)
    write_video(tmp_path / "a.mp4", [(grey(level), at) for level, at in zip(levels, times, strict=True)], 25.0)
    name, _, frames = read(tmp_path / "a.mp4")
    assert name == codec
    np.testing.assert_allclose([at for at, _ in frames], [0, 0.04, 0.24, 0.28], atol=1e-4)
    np.testing.assert_allclose([pixels.mean() for _, pixels in frames], levels, atol=4)


def test_odd_sizes_are_extended_and_later_images_get_the_size_of_the_first(tmp_path):
    images = [grey(60, (65, 47)), grey(180, (30, 20))]
    write_video(tmp_path / "a.mp4", [(image, number / 10) for number, image in enumerate(images)], 10.0)
    _, rate, frames = read(tmp_path / "a.mp4")
    assert [pixels.shape for _, pixels in frames] == [(48, 66, 3)] * 2
    assert rate == 10
    assert abs(frames[1][1].mean() - 180) < 4


def test_times_that_stand_still_still_give_a_frame_each(tmp_path):
    write_video(tmp_path / "a.mp4", [(grey(100), 0.5)] * 3, 25.0)
    assert len(read(tmp_path / "a.mp4")[2]) == 3


def test_no_more_than_a_few_images_are_held_while_writing(tmp_path):
    import weakref

    given, most = [], 0

    def images():
        nonlocal most
        for number in range(60):
            image = grey(number)
            given.append(weakref.ref(image))
            most = max(most, sum(each() is not None for each in given))
            yield image, number / 25
            del image

    write_video(tmp_path / "a.mp4", images(), 25.0)
    assert most <= 2


def test_points_have_the_colour_of_their_confidence_and_hollow_ones_show_the_image():
    image = Image.new("RGB", (200, 100), (10, 20, 30))
    points = np.array([[50.0, 40.0], [120.0, 60.0]])
    drawn = draw_points(image, points, np.array([0.9, 0.2]), np.array([True, False]), ["a", "b"], "frame 3")
    pixels = np.asarray(drawn)
    assert pixels.shape == (128, 200, 3)
    assert tuple(pixels[40, 50]) == confidence_colour(0.9)
    assert tuple(pixels[60, 120]) == (10, 20, 30)
    assert (pixels[60, 114:127] == 255).all(axis=-1).any()  # the ring
    assert (pixels[102:126, 5:60] < 100).all(axis=-1).any()  # the caption
