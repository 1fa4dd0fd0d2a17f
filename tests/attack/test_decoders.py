"""Small image files that take decoders minutes or gigabytes: refused by their structure, or decoded within limits."""

import struct
import sys
import tracemalloc
import zlib
from contextlib import suppress
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.io import images
from mambamatcher.io.decoding import decode
from mambamatcher.io.decoding_worker import DecodingWorkers
from mambamatcher.io.image_headers import MAX_SCANS, inspect
from mambamatcher.io.images import load_image, read_size
from mambamatcher.web import uploads
from tests.helpers import noise_file

FEW_PIXELS = 10**6


def scans_jpeg(side: int, repeats: int) -> bytes:
    """Return a progressive JPEG whose last scan is repeated; a few bytes make the decoder visit every pixel."""
    encoded = BytesIO()
    Image.new("L", (side, side), 128).save(encoded, "JPEG", progressive=True)
    content = encoded.getvalue()
    return content[:-2] + content[content.rindex(b"\xff\xda") : -2] * repeats + content[-2:]


def tiff(*entries: tuple[int, int, int, int], big: bool = False, order: str = "<") -> bytes:
    """Return a TIFF of 10x10 grey pixels with further entries (tag, type, count, value)."""
    own = [(256, 3, 1, 10), (257, 3, 1, 10), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]
    listed = sorted({tag: (tag, kind, count, value) for tag, kind, count, value in [*own, *entries]}.values())
    mark = b"II" if order == "<" else b"MM"
    start = struct.pack(order + ("HHHQQ" if big else "HIH"), *((43, 8, 0, 16) if big else (42, 8)), len(listed))
    form = order + ("HHQ" if big else "HHI")
    short = order + ("H6x" if big else "H2x")
    long = order + ("Q" if big else "I")
    rows = [struct.pack(form, *row[:3]) + struct.pack(short if row[1] == 3 else long, row[3]) for row in listed]
    return mark + start + b"".join(rows) + bytes(64)


def tile_tiff(side: int, **form: object) -> bytes:
    """Return a TIFF with one tile of compressed nothing, long enough for libtiff to believe it."""
    return tiff((322, 4, 1, side), (323, 4, 1, side), (324, 4, 1, 300), (325, 4, 1, 10**6), **form) + bytes(10**6)


REFUSED = {
    "scans": (scans_jpeg(800, 5000), "more than 100 scans"),
    "scans after restart": (scans_jpeg(800, 200).replace(b"\xff\xda", b"\xff\xd0\xff\xff\xda"), "more than 100 scans"),
    "tile": (tile_tiff(26_700), "tiles of 26700x26700 pixels"),
    "tile, big-endian": (tile_tiff(26_700, order=">"), "tiles of 26700x26700 pixels"),
    "tile, BigTIFF": (tile_tiff(26_700, big=True), "tiles of 26700x26700 pixels"),
    "strips": (tiff((273, 4, 2_000_000, 8), (279, 4, 2_000_000, 8)) + bytes(8_000_000), "2,000,000 strips or tiles"),
}


@pytest.mark.parametrize(("content", "words"), REFUSED.values(), ids=list(REFUSED))
def test_structures_that_no_encoder_writes_are_refused_before_pillow_sees_them(content, words, tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("Pillow opened it"))
    path = tmp_path / "attack.bin"
    path.write_bytes(content)
    for read in (load_image, read_size, lambda path: uploads.decode(path.read_bytes(), str(path), FEW_PIXELS)):
        with pytest.raises(InputError, match=words) as caught:
            read(path)
        assert "attack.bin" in str(caught.value)


def comments_gif() -> bytes:
    encoded = noise_file(file_format="GIF")
    start = 13 + (3 << ((encoded[10] & 7) + 1))
    return encoded[:start] + b"!\xfe\1c\0" * 5_000 + encoded[start:]


def chunks_png() -> bytes:
    encoded = noise_file()
    chunk = struct.pack(">I", 0) + b"teXt" + struct.pack(">I", zlib.crc32(b"teXt"))
    return encoded[:33] + chunk * 5_000 + encoded[33:]


def segments_jpeg() -> bytes:
    encoded = noise_file(file_format="JPEG")
    return encoded[:2] + b"\xff\xfe\0\2" * 5_000 + encoded[2:]


def run_length_bmp() -> bytes:
    rows = (b"\x08\x07\0\0" * 4) + b"\0\1"  # four rows of eight pixels of colour 7
    palette = bytes(value for grey in range(256) for value in (grey, grey, grey, 0))
    header = struct.pack("<IiiHHIIiiII", 40, 8, 4, 1, 8, 1, len(rows), 1, 1, 256, 0)
    start = 14 + len(header) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start) + header + palette + rows


SUSPICIOUS = {
    "blocks of a GIF": comments_gif(),
    "chunks of a PNG": chunks_png(),
    "segments of a JPEG": segments_jpeg(),
    "run lengths": run_length_bmp(),
    "icon": noise_file(32, 32, "ICO"),
    "plain text": b"P3 2 1 255 1 2 3 4 5 6",
}


@pytest.mark.parametrize("content", SUSPICIOUS.values(), ids=list(SUSPICIOUS))
def test_a_sound_file_that_looks_suspicious_is_decoded_in_a_worker_as_here(content, monkeypatch):
    expected = decode(content, "here", FEW_PIXELS)
    monkeypatch.setattr(images, "decode", lambda *_: pytest.fail("decoded in this process"))
    assert load_image(content).tobytes() == expected.tobytes()


def overlapping_exif(entries: int, size: int) -> bytes:
    """Return EXIF whose every entry claims the same `size` bytes: read one by one, they are `entries` times as many."""
    rows = b"".join(struct.pack("<HHII", 1000 + entry, 7, size, 8) for entry in range(entries))
    block = b"II*\0" + struct.pack("<IH", 8, entries) + rows + bytes(4)
    return block + bytes(size + 8 - len(block))


def chunk_png(name: bytes, content: bytes) -> bytes:
    encoded = noise_file()
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return encoded[:33] + struct.pack(">I", len(content)) + name + content + checksum + encoded[33:]


def frames_gif(count: int) -> bytes:
    encoded = noise_file(8, 8, "GIF")
    frame = encoded[encoded.rindex(b",\0\0\0\0") : -1]
    return encoded[:-1] + frame * count + b";"


EXIF = overlapping_exif(10_000, 200_000)
METADATA = {
    "EXIF of a PNG": chunk_png(b"eXIf", EXIF),
    "EXIF of a WebP": noise_file(60, 40, "WEBP", exif=EXIF),
    "EXIF of a JPEG": noise_file(60, 40, "JPEG", exif=b"Exif\0\0" + overlapping_exif(3_000, 60_000)),
    "colour profile of a PNG": chunk_png(b"iCCP", b"p\0\0" + zlib.compress(bytes(200_000_000))),
    "colour profile of a JPEG": noise_file(60, 40, "JPEG", icc_profile=bytes(10_000_000)),
    "frames": frames_gif(20_000),
}


@pytest.mark.parametrize("content", METADATA.values(), ids=list(METADATA))
def test_metadata_and_further_frames_take_no_memory_beyond_that_of_the_file(content):
    tracemalloc.start()
    try:
        with suppress(InputError):  # Pillow refuses a compressed profile that is very much larger than its file
            assert max(load_image(content).size) <= 60
        assert tracemalloc.get_traced_memory()[1] < 10 * len(content) + 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
@pytest.mark.parametrize("side", [1, 60, 400])
def test_ordinary_files_are_decoded_without_a_worker(file_format, side):
    assert not inspect(noise_file(side, side, file_format), "ordinary")


def test_ordinary_variants_are_not_suspicious():
    for options in ({"progressive": True}, {"quality": 100, "subsampling": 0, "comment": b"\xff\xda" * 10_000}):
        assert not inspect(noise_file(900, 700, "JPEG", **options), "ordinary")
    for compression in ("raw", "tiff_lzw", "tiff_deflate", "jpeg", "packbits"):
        strip_size = 900 * 3 * 8 if compression == "jpeg" else 1  # bytes; JPEG needs eight rows
        content = noise_file(900, 700, "TIFF", compression=compression, strip_size=strip_size)
        assert not inspect(content, "ordinary")
        assert np.asarray(load_image(content)).shape == (700, 900, 3)
    assert not inspect(noise_file(900, 700, "TIFF", big_tiff=True), "ordinary")
    assert not inspect(noise_file(60, 40, "JPEG") + scans_jpeg(8, 500), "a second image behind the first")


def test_scans_of_a_large_jpeg_are_counted_with_its_pixels():
    assert not inspect(scans_jpeg(1000, MAX_SCANS - 10), "small")
    assert inspect(scans_jpeg(8000, MAX_SCANS - 10), "large")


def test_a_worker_that_takes_too_long_is_killed_and_replaced():
    workers = DecodingWorkers()
    assert workers.decode(noise_file(), "sound", FEW_PIXELS).size == (60, 40)
    first = workers._idle[0]
    workers.seconds = 1.0
    with pytest.raises(InputError, match="cannot decode slow: that takes more than 1 seconds"):
        workers.decode(scans_jpeg(4000, 5000), "slow", 10**8)
    workers.seconds = 30.0
    assert first.poll() is not None
    assert workers.decode(noise_file(), "sound", FEW_PIXELS).size == (60, 40)
    assert workers._idle[0].pid != first.pid


def test_a_worker_has_a_limit_of_memory():
    workers = DecodingWorkers()
    with pytest.raises(InputError, match="large"):
        workers.decode(tile_tiff(26_700), "large", FEW_PIXELS)
    assert workers.decode(noise_file(), "sound", FEW_PIXELS).size == (60, 40)


def test_a_worker_that_dies_is_replaced():
    workers = DecodingWorkers()
    workers.decode(noise_file(), "sound", FEW_PIXELS)
    workers._idle[0].kill()
    with pytest.raises(InputError, match="its decoder crashed"):
        workers.decode(noise_file(), "sound", FEW_PIXELS)
    assert workers.decode(noise_file(), "sound", FEW_PIXELS).size == (60, 40)


def test_a_worker_imports_nothing_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported from the working directory')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert DecodingWorkers().decode(noise_file(), "sound", FEW_PIXELS).size == (60, 40)


def test_uploads_are_decoded_outside_the_server(monkeypatch):
    content = noise_file()
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("opened in the server"))
    assert uploads.decode(content, "a.png", FEW_PIXELS).size == (60, 40)
