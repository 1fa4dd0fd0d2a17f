"""Read numeric arrays of MATLAB files, level 5 (MATLAB 5 to 7).

SciPy's reader is compiled and crashes the process on some damaged files, so it is not used.
"""

import struct
import zlib
from collections.abc import Iterator
from math import prod

import numpy as np

HEADER = 128  # bytes
LARGEST = 8 << 20  # bytes of a decompressed variable: annotations are small
_VERSIONS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}  # end of the header: byte order
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}  # as stored
_NUMERIC = range(6, 16)  # classes of variables: double to uint64; others are text, cells, structures
_COMPLEX = 0x0800


def read_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the real numeric arrays of a file by name, as floats.

    Raises:
        ValueError: If the file is not a MATLAB file of this version, or is damaged.
    """
    order = _VERSIONS.get(content[HEADER - 4 : HEADER])
    if order is None:
        raise ValueError("it is not a MATLAB file of version 5 to 7; save it with -v7")
    try:
        return dict(_variables(content[HEADER:], order))
    except (zlib.error, struct.error) as error:
        raise ValueError(f"it is damaged ({error})") from error


def _variables(content: bytes, order: str) -> Iterator[tuple[str, np.ndarray]]:
    for kind, body in _elements(content, order):
        variables = _elements(_decompressed(body), order) if kind == _COMPRESSED else [(kind, body)]
        for inner, variable in variables:
            if inner == _MATRIX:
                yield from _variable(variable, order)


def _decompressed(body: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    decompressed = decompressor.decompress(body, LARGEST)
    if not decompressor.eof:
        raise ValueError("a variable is truncated or too large")
    return decompressed


def _variable(body: bytes, order: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield a variable if it is a real numeric array: flags, dimensions, name and values, in this order."""
    parts = list(_elements(body, order))
    if len(parts) < 4:
        return
    flags = struct.unpack_from(order + "I", parts[0][1])[0]
    if flags & 0xFF not in _NUMERIC or flags & _COMPLEX:
        return
    shape = np.frombuffer(parts[1][1], order + "i4").tolist()
    kind, stored = parts[3]
    if kind not in _NUMBERS:
        raise ValueError(f"values of the unknown type {kind}")
    values = np.frombuffer(stored, order + _NUMBERS[kind])
    if min(shape, default=-1) < 0 or prod(shape) != len(values):
        raise ValueError(f"{len(values)} values for an array of {shape}")
    yield parts[2][1].decode("latin-1"), values.astype(np.float64).reshape(shape, order="F")


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield the type and content of each element."""
    position = 0
    while position < len(content):
        kind, size = struct.unpack_from(order + "II", content, position)
        start = position + 8
        if kind >> 16:  # up to four bytes are stored in the tag itself
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
        end = start + size
        if end > len(content) or (start == position + 4 and size > 4):
            raise ValueError("an element is truncated")
        yield kind, content[start:end]
        position = end if kind == _COMPRESSED else end + -end % 8
