"""Decode the frames of a video file with PyAV, one after the other. A process of its own does this, see `video_worker`.

Only files of known containers are opened, and nothing but the file itself: a playlist in place of a video could name
other files or addresses, which FFmpeg would read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from mambamatcher.errors import InputError

MAX_PIXELS = 40_000_000  # of a frame; 8K has 33 million
CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,h264,hevc,m4v,flv,ogg,asf"
_USUAL_RATE = 25.0  # frames per second, where a file does not say


class VideoDecoder:
    """The first video stream of a file; `frames` decodes it once.

    Args:
        path: The file.
        max_pixels: Limit on width times height of a frame.

    Raises:
        InputError: The file is no video, has no video stream, or has too large frames.
    """

    def __init__(self, path: Path, max_pixels: int = MAX_PIXELS) -> None:
        import av
        from av.stream import Disposition

        self._failure = av.FFmpegError
        options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "file"}
        try:
            self._container = av.open(str(path), options=options, metadata_errors="replace")
        except (av.FFmpegError, OSError) as error:
            reason = "it is cut off, damaged or not a video" if path.stat().st_size else "it is empty"
            raise InputError(f"cannot read {path} as a video: {reason}") from error
        cover = Disposition.attached_pic  # a picture of a song, which FFmpeg counts as a video
        streams = [each for each in self._container.streams.video if not each.disposition & cover]
        if not streams:
            types = {"a picture" if each.type == "video" else each.type for each in self._container.streams}
            kinds = ", ".join(sorted(types)) or "nothing"
            raise InputError(f"{path} has no video stream; it has {kinds}")
        self._stream = streams[0]
        width, height = self._stream.codec_context.width, self._stream.codec_context.height
        if width * height > max_pixels:
            raise InputError(
                f"{path} has frames of {width}x{height} pixels, more than the {max_pixels:,} allowed; make it smaller"
            )
        self._stream.codec_context.options = {"max_pixels": str(max_pixels)}  # it may change on the way
        self._stream.thread_type = "NONE"  # with threads, what is left of a damaged frame could differ between runs
        self.rate = float(self._stream.average_rate or self._stream.guessed_rate or _USUAL_RATE)
        self.lost = 0  # packets that could not be decoded
        self.partial = 0  # frames that were decoded in part
        self._packets = 0

    def frames(self) -> Iterator[tuple[int, float, Any]]:
        """Yield the number of each frame, its time in seconds since the first one, and the frame itself."""
        first, last = 0.0, 0.0
        for number, frame in enumerate(self._decoded()):
            time = number / self.rate if frame.time is None else frame.time
            if not number:
                first = time
            last = max(last, round(time - first, 6))  # damaged files may count backwards
            self.partial += bool(frame.is_corrupt)
            yield number, last, frame

    def missing_end(self, frames: int, time: float) -> float | None:
        """Return how long the file says to be, in seconds, if it ended before that."""
        stream, container = self._stream, self._container
        declared = 0.0
        if stream.duration is not None:
            declared = float(stream.duration * stream.time_base)
        elif container.duration is not None and len(container.streams) == 1:
            declared = container.duration / 1e6
        if stream.frames > max(self._packets, frames):
            declared = max(declared, stream.frames / self.rate)
        return declared if declared > time + max(3 / self.rate, 0.1) else None

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def _decoded(self) -> Iterator[Any]:
        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
            except self._failure:  # the container is damaged here
                self.lost += 1
                packet = None
            if packet is not None:
                self._packets += bool(packet.size)
            try:  # without a packet the decoder gives the frames it still holds, which an undamaged end asks for itself
                yield from self._stream.codec_context.decode(packet)
            except EOFError:
                pass
            except self._failure:
                self.lost += 1
            if packet is None:
                return


def upright_pixels(frame: Any) -> UInt8[np.ndarray, "height width 3"]:
    """Return the RGB pixels of a frame as a player shows it: turned by the rotation that the file states."""
    return np.ascontiguousarray(np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90) % 4))
