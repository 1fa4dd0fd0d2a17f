"""Small videos for tests, written with PyAV."""

import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.stream import Disposition
from PIL import Image

RATE = 25


def write_clip(
    path: Path,
    images: Iterable[Image.Image],
    codec: str = "libx264",
    times: Sequence[Fraction] | None = None,
    pixel_format: str = "yuv420p",
    **options: str,
) -> Path:
    """Write images as a video of 25 frames per second, or each at its own time."""
    stream = None
    with av.open(str(path), "w", options={"movflags": "faststart"} if path.suffix == ".mp4" else {}) as container:
        for number, image in enumerate(images):
            if stream is None:
                stream = container.add_stream(codec, rate=RATE, options=options)
                stream.width, stream.height = image.size
                stream.pix_fmt = pixel_format
                if times is not None:
                    stream.codec_context.time_base = Fraction(1, 1000)
            frame = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
            if times is not None:
                frame.pts, frame.time_base = int(times[number] * 1000), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        assert stream is not None
        container.mux(stream.encode(None))
    return path


def grey(level: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    return Image.new("RGB", size, (level, level, level))


def noise(seed: int, size: tuple[int, int] = (96, 64)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def steps(count: int) -> list[Image.Image]:
    """Uniform images that become lighter, so that a frame can be told by its level: 20 + 7 for each before it."""
    return [grey(20 + 7 * number) for number in range(count)]


def write_sound(path: Path, has_cover: bool = False) -> Path:
    """Write a file with sound and, as songs have it, a picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        if has_cover:
            cover = container.add_stream("mjpeg", rate=1)
            cover.width, cover.height, cover.pix_fmt = 32, 32, "yuvj420p"
            cover.disposition = Disposition.attached_pic
            container.mux([*cover.encode(av.VideoFrame(32, 32, "yuvj420p")), *cover.encode(None)])
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 8000), dtype=np.float32), format="fltp", layout="mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode(None))
    return path


def turn_clockwise(path: Path) -> None:
    """Change the matrix in the header of an MP4 to say that players turn it by 90 degrees, as phones do."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 44
    assert content[at : at + 4] == struct.pack(">i", 1 << 16)
    content[at : at + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
