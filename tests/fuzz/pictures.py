"""Pictures of every odd kind. What is odd but whole must be read right; what is broken may be read or refused."""

import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from mambamatcher.io.decoding import MAX_PIXELS
from mambamatcher.io.images import load_image, resize_square, to_bytes
from mambamatcher.web.uploads import decode
from tests.fuzz.damage import Rng, damaged_bytes, pick

SIDE = 56
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "TGA", "PCX", "SGI", "ICO", "JPEG2000", "DDS", "MPO")
WEB_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
MAGIC = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff\xe0",
    b"RIFF\x10\x00\x00\x00WEBPVP8 ",
    b"GIF89a",
    b"BM",
    b"II*\x00",
    b"P6 ",
)
ORIENTATION = 0x0112
STORED = {  # how an upright picture is stored under each orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}

Check = Callable[[Image.Image], None]


def blobs(rng: Rng, size: tuple[int, int]) -> Image.Image:
    small = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


def encode(image: Image.Image, file_format: str, **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


def random_size(rng: Rng) -> tuple[int, int]:
    return int(rng.integers(1, 70)), int(rng.integers(1, 70))


def plain(rng: Rng) -> bytes:
    return encode(blobs(rng, (32 + int(rng.integers(40)), 32)), pick(rng, FORMATS))


def close_to(expected: Image.Image, tolerance: float) -> Check:
    def check(found: Image.Image) -> None:
        assert found.size == expected.size
        difference = np.abs(np.asarray(found, dtype=float) - np.asarray(expected.convert("RGB"), dtype=float))
        assert difference.mean() <= tolerance, difference.mean()

    return check


def truncated(rng: Rng) -> tuple[bytes, None]:
    data = plain(rng)
    return data[: int(rng.integers(len(data)))], None


def damaged(rng: Rng) -> tuple[bytes, None]:
    return damaged_bytes(rng, plain(rng)), None


def wrong_header(rng: Rng) -> tuple[bytes, None]:
    data, magic = plain(rng), pick(rng, MAGIC)
    return magic + data[len(magic) :], None


def no_bytes(rng: Rng) -> tuple[bytes, None]:
    return b"" if rng.integers(2) else bytes(int(rng.integers(1, 2000))), None


def huge(rng: Rng) -> tuple[bytes, None]:
    """Claim a size that no memory holds, or that just does, in a small file."""
    width, height = pick(
        rng, ((2**31 - 1, 2**31 - 1), (100_000, 100_000), (MAX_PIXELS, 2), (1, MAX_PIXELS), (7000, 7000))
    )
    way = int(rng.integers(4))
    if way == 0:
        body = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        return _png(body, zlib.compress(bytes(1000))), None
    if way == 1:
        return b"P6 %d %d 255\n" % (width, height) + bytes(100), None
    if way == 2:
        return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 200, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0), None
    return b"GIF89a" + struct.pack("<HHBBB", width % 65536, height % 65536, 0x80, 0, 0) + bytes(6) + b"," + bytes(
        40
    ), None


def near_limit(rng: Rng) -> tuple[bytes, Check]:
    """A whole picture of up to as many pixels as are allowed, every row the same so that its file is small."""
    width = int(rng.integers(1000, 50_000))
    height = MAX_PIXELS // width // int(rng.integers(1, 4))
    row = np.resize(rng.integers(0, 256, (64, 4), dtype=np.uint8), (width, 4))
    colours = rng.integers(0, 256, (256, 3), dtype=np.uint8)
    depth, colour_type, stored, expected = pick(
        rng,
        (
            (16, 0, row[:, :2], row[:, [0, 0, 0]]),
            (8, 6, row, 255 - (255.0 - row[:, :3]) * row[:, 3:] / 255),
            (8, 3, row[:, :1], colours[row[:, 0]]),
        ),
    )
    packer = zlib.compressobj(1)
    line = b"\0" + stored.tobytes()
    body = b"".join([packer.compress(line) for _ in range(height)]) + packer.flush()

    def check(found: Image.Image) -> None:
        assert found.size == (width, height)
        for top in (0, height // 2, height - 1):
            values = np.asarray(found.crop((0, top, width, top + 1)), dtype=float)[0]
            assert np.abs(values - expected).max() <= 1

    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    return _png(header, body, colours.tobytes() if colour_type == 3 else b""), check


def _png(header: bytes, data: bytes, colours: bytes = b"") -> bytes:
    palette = ((b"PLTE", colours),) if colours else ()
    chunks = ((b"IHDR", header), *palette, (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def cmyk(rng: Rng) -> tuple[bytes, Check]:
    image = blobs(rng, random_size(rng)).convert("CMYK")
    return encode(image, pick(rng, ("TIFF", "JPEG")), quality=95), close_to(image, 12)


def sixteen_bits(rng: Rng) -> tuple[bytes, Check]:
    width, height = random_size(rng)
    values = rng.integers(0, 65536, (height, width)).astype(np.uint16)
    eight = Image.fromarray((values / 257).astype(np.uint8))
    return encode(Image.fromarray(values), pick(rng, ("PNG", "TIFF"))), close_to(eight, 1)


def palette(rng: Rng) -> tuple[bytes, Check]:
    image = blobs(rng, random_size(rng)).quantize(int(rng.integers(2, 256)))
    return encode(image, pick(rng, ("PNG", "GIF", "BMP", "TIFF"))), close_to(image, 0)


def transparent(rng: Rng) -> tuple[bytes, Check]:
    image = blobs(rng, random_size(rng)).convert("RGBA")
    image.putalpha(0)
    return encode(image, pick(rng, ("PNG", "TIFF"))), close_to(Image.new("RGB", image.size, "white"), 0)


def animated(rng: Rng) -> tuple[bytes, Check]:
    size = random_size(rng)
    frames = [blobs(rng, size) for _ in range(3)]
    file_format = pick(rng, ("PNG", "TIFF", "GIF", "WEBP"))
    options = {"lossless": True} if file_format == "WEBP" else {}
    data = encode(frames[0], file_format, save_all=True, append_images=frames[1:], **options)
    return data, close_to(frames[0], 10 if file_format == "GIF" else 0)


def rotated(rng: Rng) -> tuple[bytes, Check]:
    file_format = pick(rng, ("PNG", "TIFF", "WEBP", "JPEG"))
    modes = {"TIFF": ("RGB", "L", "CMYK", "RGBA"), "PNG": ("RGB", "L", "RGBA"), "JPEG": ("RGB", "L")}
    image = blobs(rng, random_size(rng)).convert(pick(rng, modes.get(file_format, ("RGB",))))
    orientation = int(rng.integers(1, 9))
    stored = image.transpose(STORED[orientation]) if orientation in STORED else image
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95, "subsampling": 0}}.get(file_format, {})
    return encode(stored, file_format, exif=exif, **options), close_to(image, 8 if file_format == "JPEG" else 0)


def odd_exif(rng: Rng) -> tuple[bytes, Check]:
    """Store a whole picture whose EXIF is damaged: it may say any orientation, or none that can be read."""
    image = blobs(rng, (40, 30))
    exif = Image.Exif()
    exif[ORIENTATION] = pick(rng, (0, 6, 9, 255, 65535))
    said = exif.tobytes()
    odd = b"Exif\0\0" + damaged_bytes(rng, said.removeprefix(b"Exif\0\0"))
    data = encode(image, pick(rng, ("PNG", "WEBP")), exif=odd, lossless=True)
    turns = [image, *(image.transpose(turn) for turn in STORED.values())]

    def check(found: Image.Image) -> None:
        assert any(np.array_equal(np.asarray(found), np.asarray(turn)) for turn in turns)

    return data, check


def one_pixel(rng: Rng) -> tuple[bytes, Check]:
    colour = tuple(int(value) for value in rng.integers(0, 256, 3))
    image = Image.new("RGB", pick(rng, ((1, 1), (1, 3000), (3000, 1))), colour)
    return encode(image, pick(rng, ("PNG", "BMP", "TIFF"))), close_to(image, 0)


KINDS = (
    truncated, damaged, wrong_header, no_bytes, huge, cmyk, sixteen_bits, palette, transparent, animated, rotated,
    odd_exif, one_pixel,
)  # fmt: skip
NEAR_LIMIT_OF = 50  # one picture in so many is near the limit: each takes seconds


def run(rng: Rng, folder: Path) -> tuple[str, Callable[[], None]]:
    """Return the kind of a picture and what to do with it: read it by one of the ways in."""
    kind = near_limit if rng.integers(NEAR_LIMIT_OF) == 0 else pick(rng, KINDS)
    data, check = kind(rng)
    way = int(rng.integers(3))

    def read() -> None:
        if way == 0:
            path = folder / f"picture{pick(rng, ('.png', '.jpg', '.tif', ''))}"
            path.write_bytes(data)
            image = load_image(path)
        elif way == 1:
            image = load_image(data)
        else:
            image = decode(data, "upload", 40_000_000 if check is None else MAX_PIXELS)
        assert image.mode == "RGB"
        assert 0 < image.width * image.height <= MAX_PIXELS
        assert to_bytes(resize_square(image, SIDE)).shape == (3, SIDE, SIDE)
        if check is not None:
            check(image)

    return f"picture: {kind.__name__.replace('_', ' ')}", must_read(read) if check is not None else read


def must_read(read: Callable[[], None]) -> Callable[[], None]:
    """Count a refusal of a whole picture as a fault."""
    from mambamatcher.errors import InputError

    def checked() -> None:
        try:
            read()
        except InputError as error:
            raise AssertionError(f"a whole picture was refused: {error}") from error

    return checked
