"""Frames of videos: which they are, what they show, and what is left of damaged files."""

import gc
import json
import os
import random
import sys
import time
import weakref
from fractions import Fraction

import numpy as np
import pytest

from mambamatcher.errors import InputError
from mambamatcher.io import videos
from mambamatcher.io.frame_selection import FrameSelection, Position
from mambamatcher.io.videos import is_video, list_frames, read_frames
from tests.clips import grey, noise, steps, turn_clockwise, write_clip, write_sound
from tests.helpers import noise_file

ALL = FrameSelection()


def levels(path, numbers):
    return {number: round(float(np.asarray(image).mean())) for number, image in read_frames(path, numbers)}


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "libx264"), ("a.mp4", "mpeg4"), ("a.avi", "mpeg4"), ("a.mkv", "libx264"), ("a.webm", "libvpx-vp9")],
)
def test_a_frame_is_found_by_its_number_and_time(tmp_path, name, codec):
    clip = write_clip(tmp_path / name, steps(30), codec, b="2000000")
    listed = list_frames(clip, ALL)
    assert [number for number, _ in listed.frames] == list(range(30))
    np.testing.assert_allclose([at for _, at in listed.frames], np.arange(30) / 25, atol=1e-3)
    assert listed.damage is None
    found = levels(clip, {0, 7, 29})
    assert list(found) == [0, 7, 29]
    np.testing.assert_allclose(list(found.values()), [20, 69, 223], atol=3)


@pytest.mark.parametrize(
    ("every", "start", "stop", "expected"),
    [
        (1, "0", None, list(range(20))),
        (6, "0", None, [0, 6, 12, 18]),
        (1, "0.2", "0.32", [5, 6, 7]),  # 25 frames per second: frame 5 is at 0.2 s, frame 8 at 0.32 s
        (1, "0.21", "0.33s", [6, 7, 8]),
        (3, "4f", "12f", [4, 7, 10]),
        (4, "0.1", "15f", [3, 7, 11]),
        (100, "19f", None, [19]),
        (1, "0", "1f", [0]),
    ],
)
def test_frames_are_selected_as_calculated_by_hand(every, start, stop, expected):
    asked = []

    def frames():
        for number in range(20):
            asked.append(number)
            yield number, round(number / 25, 6)

    selection = FrameSelection(
        every=every, start=Position.parse(start), stop=None if stop is None else Position.parse(stop)
    )
    assert [number for number, _ in selection.choose(frames())] == expected
    assert FrameSelection.from_json(json.loads(json.dumps(selection.to_json()))) == selection
    if stop is not None:  # nothing is decoded beyond the end
        assert asked[-1] == max(expected) + 1 or asked[-1] <= max(expected) + every


@pytest.mark.parametrize("text", ["1234567f", f"{'9' * 400}f", "12345.678", "0.1", "1e7"])
def test_a_position_is_read_again_as_it_was(text):
    selection = FrameSelection(start=Position.parse(text))
    assert FrameSelection.from_json(selection.to_json()) == selection


@pytest.mark.parametrize(("start", "stop"), [("2", "1.5"), ("0", "0"), ("7f", "7f"), ("0", "0f"), ("0f", "0")])
def test_an_end_before_the_start_is_refused(start, stop):
    with pytest.raises(InputError, match=f"--to {stop} must be after --from {start}"):
        FrameSelection(start=Position.parse(start), stop=Position.parse(stop))


@pytest.mark.parametrize("text", ["", "f", "-1", "1.5f", "nan", "inf", "1:20", "end"])
def test_what_is_no_position_is_refused(text):
    with pytest.raises(InputError, match=r"a time in seconds, such as 2\.5, or a frame, such as 75f"):
        Position.parse(text)


def test_frames_of_a_varying_rate_have_their_own_times(tmp_path):
    times = [Fraction(ms, 1000) for ms in (0, 40, 240, 280, 1000, 1010)]
    clip = write_clip(tmp_path / "a.mkv", steps(6), times=times)
    listed = list_frames(clip, FrameSelection(start=Position(0.2), stop=Position(1.005)))
    assert listed.frames == [(2, 0.24), (3, 0.28), (4, 1.0)]


def test_time_counts_from_the_first_frame_where_a_file_begins_later(tmp_path):
    times = [Fraction(5) + Fraction(n, 10) for n in range(4)]
    clip = write_clip(tmp_path / "a.ts", steps(4), times=times)
    assert list_frames(clip, ALL).frames == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3)]


def test_a_frame_is_turned_as_players_turn_it(tmp_path):
    left_dark = grey(230)
    left_dark.paste((20, 20, 20), (0, 0, 32, 48))
    clip = write_clip(tmp_path / "a.mp4", [left_dark] * 3)
    turn_clockwise(clip)
    ((_, image),) = read_frames(clip, {1})
    assert image.size == (48, 64)
    pixels = np.asarray(image)
    assert pixels[:30].mean() < 30  # what was left is now above
    assert pixels[34:].mean() > 220


def test_odd_sizes_and_other_pixel_formats_are_read(tmp_path):
    clip = write_clip(tmp_path / "a.mp4", [grey(100, (63, 47))] * 3, pixel_format="yuv444p")
    ((_, image),) = read_frames(clip, {2})
    assert image.size == (63, 47)
    assert abs(np.asarray(image).mean() - 100) < 3


def test_a_truncated_video_gives_the_frames_before_the_end_and_says_so(tmp_path):
    whole = write_clip(tmp_path / "whole.mp4", [noise(seed) for seed in range(20)], g="5")
    content = whole.read_bytes()
    clip = tmp_path / "cut.mp4"
    counts = []
    for share in (0.4, 0.7, 0.95):
        clip.write_bytes(content[: int(share * len(content))])
        listed = list_frames(clip, ALL)
        assert listed.damage is not None
        assert listed.damage.startswith(f"{clip} is damaged: ")
        assert listed.damage.endswith(f"; {len(listed.frames)} frames could be read")
        assert "\n" not in listed.damage
        expected = {number: np.asarray(image) for number, image in read_frames(whole, range(len(listed.frames)))}
        last = len(listed.frames) - 2  # the very last one may be there in part
        for number, image in read_frames(clip, range(last)):
            np.testing.assert_array_equal(np.asarray(image), expected[number])
        counts.append(len(listed.frames))
    assert 3 < counts[0] < counts[1] < counts[2] < 20


def test_damage_in_the_middle_does_not_end_a_video(tmp_path):
    clip = write_clip(tmp_path / "a.avi", [noise(seed) for seed in range(30)], "mpeg4", g="3")
    content = bytearray(clip.read_bytes())
    generator = random.Random(0)
    for _ in range(60):
        content[generator.randrange(len(content) // 3, len(content) // 2)] ^= 0xFF
    clip.write_bytes(content)
    listed = list_frames(clip, ALL)
    assert len(listed.frames) >= 25
    assert "only in part" in listed.damage
    assert [number for number, _ in read_frames(clip, {0, len(listed.frames) - 1})] == [0, len(listed.frames) - 1]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (noise_file(file_format="PNG"), "cut off, damaged or not a video"),
        (noise_file(file_format="JPEG"), "cut off, damaged or not a video"),
        (b"", "it is empty"),
        (b"no video\n" * 99, "cut off, damaged or not a video"),
        (
            b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nother.ts\n#EXT-X-ENDLIST\n",
            "cut off, damaged or not a video",
        ),
        (b"ffconcat version 1.0\nfile other.mp4\n", "cut off, damaged or not a video"),
    ],
    ids=["PNG", "JPEG", "empty", "text", "playlist", "list of files"],
)
def test_what_is_no_video_is_refused_in_one_sentence(tmp_path, content, says):
    write_clip(tmp_path / "other.mp4", steps(3))  # which a list must not lead to
    write_clip(tmp_path / "other.ts", steps(3))
    (tmp_path / "a.mp4").write_bytes(content)
    with pytest.raises(InputError, match=f"cannot read .*a.mp4 as a video: .*{says}") as raised:
        list_frames(tmp_path / "a.mp4", ALL)
    assert "\n" not in str(raised.value)


def test_files_without_frames_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.mp4 has no video stream; it has audio"):
        list_frames(write_sound(tmp_path / "a.mp4"), ALL)
    with pytest.raises(InputError, match=r"a\.mp4 has no video stream; it has a picture, audio"):
        list_frames(write_sound(tmp_path / "a.mp4", has_cover=True), ALL)
    clip = write_clip(tmp_path / "b.mp4", steps(10))
    with pytest.raises(
        InputError, match=r"has 10 frames from 0 to 0\.36 s, of which --from 2 --to the end leaves none"
    ):
        list_frames(clip, FrameSelection(start=Position(2)))
    index = clip.read_bytes()
    clip.write_bytes(index[: index.index(b"mdat") + 8])
    with pytest.raises(InputError, match=r"no frame of .*b\.mp4 can be read: .*it ends after 0\.00 of 0\.40 s"):
        list_frames(clip, ALL)
    with pytest.raises(InputError, match="there is no image file"):
        list_frames(tmp_path / "gone.mp4", ALL)


def test_frames_of_too_many_pixels_are_refused(tmp_path, monkeypatch):
    clip = write_clip(tmp_path / "a.mp4", steps(3))
    monkeypatch.setattr(videos, "MAX_PIXELS", 64 * 48 - 1)
    with pytest.raises(InputError, match="frames of 64x48 pixels, more than the 3,071 allowed"):
        list_frames(clip, ALL)


def test_a_frame_that_is_gone_is_reported(tmp_path):
    clip = write_clip(tmp_path / "a.mp4", steps(5))
    with pytest.raises(InputError, match="has no frame 9 any more; it has changed"):
        list(read_frames(clip, {3, 9}))


def answer(*lines: object) -> None:
    sys.stdout.write("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    sys.stdout.flush()


def crash_after_two_frames() -> None:
    answer("ready", {"rate": 25.0}, *({"number": n, "time": n / 25, "lost": 0, "partial": 0} for n in range(2)))
    os._exit(11)


def hang_after_a_frame() -> None:
    answer("ready", {"rate": 25.0}, {"number": 0, "time": 0.0, "lost": 0, "partial": 0})
    time.sleep(60)


@pytest.mark.parametrize(
    ("process", "frames", "says"),
    [(crash_after_two_frames, 2, "its decoder crashed"), (hang_after_a_frame, 1, "takes more than 0.5 seconds")],
)
def test_a_decoder_that_crashes_or_hangs_costs_only_the_frames_after_it(tmp_path, monkeypatch, process, frames, says):
    clip = write_clip(tmp_path / "a.mp4", steps(5))
    monkeypatch.setattr(videos, "serve_frames", process)
    monkeypatch.setattr(videos, "SECONDS", 0.5)
    listed = list_frames(clip, ALL)
    assert len(listed.frames) == frames
    assert says in listed.damage
    with pytest.raises(InputError, match=f"cannot decode .*{says}"):
        list(read_frames(clip, {4}))


def test_one_frame_is_alive_at_a_time_and_the_process_ends_with_the_loop(tmp_path, monkeypatch):
    clip = write_clip(tmp_path / "a.mp4", steps(40))
    started = []
    start = videos.start_process
    monkeypatch.setattr(videos, "start_process", lambda serve: started.append(start(serve)) or started[-1])
    frames, most = [], 0
    for number, image in read_frames(clip, range(40)):
        frames.append(weakref.ref(image))
        most = max(most, sum(each() is not None for each in frames))
        if number == 30:
            break
    assert most <= 2
    del image
    gc.collect()
    assert [process.poll() is not None for process in started] == [True]


def test_videos_are_known_by_their_names(tmp_path):
    for name in ("a.mp4", "B.MOV", "c.txt", "d"):
        (tmp_path / name).touch()
    (tmp_path / "e.mp4").mkdir()
    assert [is_video(tmp_path / name) for name in ("a.mp4", "B.MOV", "c.txt", "d", "e.mp4")] == [
        True,
        True,
        False,
        False,
        False,
    ]
