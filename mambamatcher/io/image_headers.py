"""Look at the structure of an image file before Pillow does, which decodes some small files for minutes."""

import re
import struct
from mmap import mmap
from typing import TypeAlias

from mambamatcher.errors import InputError

Content: TypeAlias = bytes | mmap

MAX_SCANS = 100  # of a JPEG; encoders write about ten, and even an empty one visits every pixel of the image
MAX_STRIPS = 100_000  # or tiles of a TIFF, which Pillow reads one by one
MAX_TILE = 1 << 24  # pixels of a TIFF's tile that is larger than its image; Pillow allocates the whole tile

# Above these limits, decoding may take long or much memory, though a sound file could exceed them.
_PASSES = 2_000_000_000  # pixels times scans of a JPEG
_BLOCKS = 2_000  # segments, chunks or blocks of metadata, which Pillow reads one by one
_BLOCK_BYTES = 1 << 10  # mean size of the chunks of a PNG that has many
_TAG_VALUES = 1_000_000  # numbers of a TIFF's tag, which take ten times their size in memory

_PLAIN = (b"\x89PNG\r\n\x1a\n", b"P4", b"P5", b"P6")  # besides those below, decoded in time and memory of their size
_WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT = 256, 257, 322, 323  # tags of a TIFF
_STRIP_TAGS = (273, 279, 324, 325)  # offsets and sizes of strips and tiles
_INTEGERS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}  # TIFF's types
_BYTE_TYPES = (1, 2, 6, 7)  # Pillow keeps these as they are

_MARKER = re.compile(rb"\xff[\xc0-\xcf\xd9-\xfe]")  # of a JPEG: what has a length, or ends the image
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_SCAN, _END_OF_IMAGE = 0xDA, 0xD9


def inspect(content: Content, name: str) -> bool:
    """Check the structure of an image file without decoding it.

    Args:
        content: Content of the file.
        name: Name of the file for error messages.

    Returns:
        Whether decoding could take much longer or much more memory than the size of the image suggests. Such a file
        is decoded in a process with limits.

    Raises:
        InputError: No encoder writes such a structure, and decoding it would take minutes or gigabytes.
    """
    start = content[:16]
    if start.startswith(b"\xff\xd8"):
        return _inspect_jpeg(content, name)
    if start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return _inspect_tiff(content, name)
    if start.startswith(b"\x89PNG"):
        return _count_png_chunks(content) > _BLOCKS + len(content) // _BLOCK_BYTES
    if start.startswith((b"GIF87a", b"GIF89a")):
        return _count_gif_blocks(content) > _BLOCKS
    if start.startswith(b"BM"):
        return content[30:31] in (b"\1", b"\2")  # run lengths, which Pillow decodes in Python
    return not start.startswith(_PLAIN) and not (start.startswith(b"RIFF") and start[8:12] == b"WEBP")


def _inspect_jpeg(content: Content, name: str) -> bool:
    pixels = segments = scans = 0
    position = 2
    while match := _MARKER.search(content, position):
        marker, position = content[match.end() - 1], match.end()
        if marker == _END_OF_IMAGE or segments > _BLOCKS:
            break
        segments += 1
        (length,) = struct.unpack(">H", content[position : position + 2].rjust(2, b"\0"))
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", content[position + 3 : position + 7].rjust(4, b"\0"))
            pixels = max(pixels, height * width)
        scans += marker == _SCAN
        if scans > MAX_SCANS:
            raise InputError(f"{name} is a JPEG of more than {MAX_SCANS} scans; save it again with another program")
        position += length
    return segments > _BLOCKS or scans * pixels > _PASSES


def _count_png_chunks(content: Content) -> int:
    position, chunks = 8, 0
    while position + 8 <= len(content) and chunks <= _BLOCKS + len(content) // _BLOCK_BYTES:
        position += 12 + int.from_bytes(content[position : position + 4], "big")
        chunks += 1
    return chunks


def _count_gif_blocks(content: Content) -> int:
    """Count the blocks before the first image, up to a little more than is suspicious."""
    flags = content[10:11]
    position = 13 + (3 << ((flags[0] & 7) + 1) if flags and flags[0] & 0x80 else 0)
    blocks = 0
    while content[position : position + 1] == b"!" and blocks <= _BLOCKS:
        position += 2
        while (size := content[position : position + 1]) not in (b"", b"\0") and blocks <= _BLOCKS:
            position += 1 + size[0]
            blocks += 1
        position += 1
        blocks += 1
    return blocks


def _inspect_tiff(content: Content, name: str) -> bool:
    order, big = "<" if content[:1] == b"I" else ">", b"+" in content[2:4]
    entries, is_complete = _read_tiff_directory(content, order, big)
    suspicious = not is_complete
    sizes: dict[int, int] = {}
    for tag, kind, count, value in entries:
        if tag in _STRIP_TAGS and count > MAX_STRIPS:
            raise InputError(
                f"{name} is a TIFF of {count:,} strips or tiles, more than the {MAX_STRIPS:,} allowed; "
                f"save it again with another program"
            )
        suspicious |= kind not in _BYTE_TYPES and count > _TAG_VALUES
        if tag in (_WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT):
            form = order + _INTEGERS.get(kind, "Q")
            if count != 1 or struct.calcsize(form) > len(value) or tag in sizes:
                suspicious = True  # one decoder may read it in another way than the other
            else:
                (sizes[tag],) = struct.unpack_from(form, value)
    image, tile = (sizes.get(w, 0) * sizes.get(h, 0) for w, h in ((_WIDTH, _HEIGHT), (_TILE_WIDTH, _TILE_HEIGHT)))
    if tile > max(MAX_TILE, image):
        raise InputError(
            f"{name} is a TIFF with tiles of {sizes[_TILE_WIDTH]}x{sizes[_TILE_HEIGHT]} pixels, larger than the image; "
            f"save it again with another program"
        )
    return suspicious


def _read_tiff_directory(content: Content, order: str, big: bool) -> tuple[list[tuple[int, int, int, bytes]], bool]:
    """Return tag, type, count and value (or its offset) of the first directory's entries, and whether these are all."""
    offset_at, offset_form, count_form, entry_form = (8, "Q", "Q", "HHQ8s") if big else (4, "I", "H", "HHI4s")
    size = struct.calcsize(order + entry_form)
    try:
        (start,) = struct.unpack_from(order + offset_form, content, offset_at)
        (count,) = struct.unpack_from(order + count_form, content, start)
        start += struct.calcsize(order + count_form)
        places = range(start, start + min(count, _BLOCKS) * size, size)
        return [struct.unpack_from(order + entry_form, content, place) for place in places], count <= _BLOCKS
    except (struct.error, OverflowError):  # the directory lies outside the file
        return [], False
