"""Read the frames of a video, a few at a time. A process of its own decodes them, with limits of time and memory."""

import json
import subprocess
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass
from os.path import isfile  # unlike Path.is_file, it accepts names that no file can have
from pathlib import Path
from threading import Timer
from typing import Any

from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.extras import naming_extra
from mambamatcher.io.decoding_worker import SECONDS, read_exactly, start_process
from mambamatcher.io.frame_selection import FrameSelection
from mambamatcher.io.images import require_file
from mambamatcher.io.video_decoding import MAX_PIXELS
from mambamatcher.io.video_worker import serve_frames

# how the name of a video ends
SUFFIXES = (
    ".mp4",
    ".m4v",
    ".mov",
    ".avi",
    ".mkv",
    ".webm",
    ".mpg",
    ".mpeg",
    ".ts",
    ".mts",
    ".wmv",
    ".flv",
    ".ogv",
    ".3gp",
)


@dataclass(frozen=True)
class FrameList:
    """Number and time in seconds of each selected frame of a video, and what is wrong with the file, if anything."""

    frames: list[tuple[int, float]]
    damage: str | None


def require_video() -> None:
    """Refuse a video at once where something is missing that its results need.

    Raises:
        MissingExtraError: PyAV or matplotlib is not installed.
    """
    with naming_extra("video"):
        import av  # noqa: F401
        import matplotlib  # noqa: F401


def is_video(path: Path) -> bool:
    """Return whether a file is a video, by its name."""
    return path.suffix.lower() in SUFFIXES and isfile(path)


def list_frames(path: Path, selection: FrameSelection) -> FrameList:
    """Decode a video once to find the selected frames. Of a damaged one, these are the frames that can be read.

    Raises:
        InputError: The file is no video, or no frame can be read or is selected.
        MissingExtraError: PyAV is not installed.
    """
    last: dict[str, Any] = {}
    problem: str | None = None

    def decoded() -> Iterator[tuple[int, float]]:
        nonlocal problem
        try:
            for answer, _ in _answers(path, ()):
                last.update(answer)
                if "number" in answer:
                    yield answer["number"], answer["time"]
        except _DecoderStopped as error:
            problem = str(error)

    frames = list(selection.choose(decoded()))
    faults = _faults(last, problem)
    if "number" not in last:
        raise InputError(f"no frame of {path} can be read{': ' + faults if faults else ''}")
    seen = last["number"] + 1
    if not frames:
        raise InputError(
            f"no frame of {path} is selected: it has {seen} frames from 0 to {last['time']:g} s, of which "
            f"--from {selection.start} --to {selection.stop or 'the end'} leaves none"
        )
    return FrameList(frames, f"{path} is damaged: {faults}; {seen} frames could be read" if faults else None)


def read_frames(path: Path, numbers: Collection[int]) -> Iterator[tuple[int, Image.Image]]:
    """Yield frames as upright RGB images with their numbers, in order. One is decoded while the caller uses another.

    Raises:
        InputError: The file has no such frame, or cannot be read.
        MissingExtraError: PyAV is not installed.
    """
    left = set(numbers)
    try:
        for answer, pixels in _answers(path, sorted(left)):
            if pixels:
                left.remove(answer["number"])
                yield answer["number"], Image.frombytes("RGB", tuple(answer["size"]), pixels)
            if not left:
                return
    except _DecoderStopped as error:
        raise InputError(f"cannot decode {path}: {error}") from error
    raise InputError(f"{path} has no frame {min(left)} any more; it has changed")


class _DecoderStopped(Exception):  # noqa: N818 -- it never leaves this module
    """The process that decodes did not answer."""


def _answers(path: Path, wanted: Collection[int]) -> Generator[tuple[dict[str, Any], bytes], None, None]:
    """Yield the answers of a process that decodes a video, each with its pixels if it has some."""
    require_video()
    require_file(path)
    process = start_process(serve_frames)
    try:
        request = {"path": str(path.absolute()), "wanted": list(wanted), "max_pixels": MAX_PIXELS, "seconds": SECONDS}
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        while True:
            answer, pixels = _next_answer(process)
            if "error" in answer:
                raise InputError(answer["error"])
            yield answer, pixels
            if "end" in answer:
                return
    finally:
        process.kill()
        process.communicate()


def _next_answer(process: subprocess.Popen[bytes]) -> tuple[dict[str, Any], bytes]:
    assert process.stdout is not None
    expired: list[bool] = []

    def expire() -> None:
        expired.append(True)
        process.kill()

    timer = Timer(SECONDS, expire)
    timer.start()
    try:
        answer = json.loads(process.stdout.readline())
        size = answer.get("size", (0, 0))
        return answer, read_exactly(process.stdout, 3 * size[0] * size[1])
    except (OSError, ValueError, EOFError) as error:
        reason = f"a frame takes more than {SECONDS:g} seconds" if expired else "its decoder crashed"
        raise _DecoderStopped(reason) from error
    finally:
        timer.cancel()


def _faults(last: dict[str, Any], problem: str | None) -> str:
    """Describe what is wrong with a video, from the last things that were said of it."""
    lost, partial, end = last.get("lost", 0), last.get("partial", 0), last.get("end")
    found = [] if problem is None else [problem]
    if lost:
        found.append(f"{lost} packet{'s' * (lost > 1)} could not be decoded")
    if partial:
        found.append(f"{partial} frame{'s' * (partial > 1)} only in part")
    if end is not None:
        found.append(f"it ends after {last.get('time', 0.0):.2f} of {end:.2f} s")
    return ", ".join(found)
