"""Write images as a video, one after the other."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

TICKS = 30_000  # per second; the usual frame rates are whole numbers of them, and MPEG-4 has at most 65,535
# the best first; H.264 plays everywhere, and an encoder that waits for no further frames holds none
_ENCODERS = {
    "libx264": {"preset": "veryfast", "crf": "20", "tune": "zerolatency"},
    "libopenh264": {},
    "mpeg4": {"qscale": "3"},
}


def write_video(path: Path, frames: Iterable[tuple[Image.Image, float]], rate: float) -> None:
    """Write an MP4 in which each image is shown at its time.

    The first image gives the size, extended to an even number of pixels by repeating the border, as the codecs need it.

    Args:
        path: The file, over one that is there.
        frames: RGB images with their times in seconds, in order.
        rate: Images per second, as a hint for players; the times count.
    """
    import av

    name = next(each for each in _ENCODERS if each in av.codecs_available and _can_encode(each))
    stream, last, start = None, -1, 0.0
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        for image, time in frames:
            if stream is None:
                start, size = time, image.size
                hint = Fraction(rate).limit_denominator(1001)
                stream = container.add_stream(name, rate=hint, options=_ENCODERS[name])
                stream.width, stream.height = (side + side % 2 for side in size)
                stream.pix_fmt = "yuv420p"
                stream.codec_context.time_base = Fraction(1, TICKS)
            pixels = np.asarray(image if image.size == size else image.resize(size))
            even = np.pad(pixels, ((0, size[1] % 2), (0, size[0] % 2), (0, 0)), mode="edge")
            frame = av.VideoFrame.from_ndarray(even, format="rgb24")
            last = max(last + 1, round((time - start) * TICKS))
            frame.pts, frame.time_base, frame.duration = last, Fraction(1, TICKS), round(TICKS / rate)
            container.mux(stream.encode(frame))
        if stream is not None:
            container.mux(stream.encode(None))


def _can_encode(name: str) -> bool:
    import av

    try:
        return av.Codec(name, "w").is_encoder
    except av.codec.codec.UnknownCodecError:
        return False
