"""Our reader of MATLAB's files against SciPy's, which is compiled and crashes on some damaged ones."""

import zlib
from contextlib import suppress
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.io import loadmat, savemat

from mambamatcher.datasets.matlab import HEADER, LARGEST, read_arrays

KINDS = st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8"])
ARRAYS = KINDS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=2, max_dims=3, max_side=5)))
NAMES = st.text("abcdefghij_", min_size=1, max_size=12).filter(lambda name: not name.startswith("_"))


def saved(content, **options) -> bytes:
    buffer = BytesIO()
    savemat(buffer, content, **options)
    return buffer.getvalue()


@given(st.dictionaries(NAMES, ARRAYS, min_size=1, max_size=4), st.booleans())
def test_arrays_are_read_as_scipy_reads_them(content, packed):
    data = saved(content, do_compression=packed)
    expected = loadmat(BytesIO(data))
    found = read_arrays(data)
    assert found.keys() == content.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name].astype(np.float64))


def test_variables_of_other_kinds_are_passed_over():
    others = {
        "text": "words",
        "cell": np.array([1, "a"], dtype=object),
        "struct": {"a": 1.0},
        "z": np.array([[1 + 2j]]),
    }
    assert list(read_arrays(saved({**others, "kps": np.eye(2)}))) == ["kps"]


def test_a_file_of_the_other_order_of_bytes():
    name, values = b"kps\0\0\0\0\0", np.array([1.5, -2.0], ">f8").tobytes()
    parts = ((6, np.array([6, 0], ">u4").tobytes()), (5, np.array([1, 2], ">i4").tobytes()), (1, name), (9, values))
    body = b"".join(np.array([kind, len(part)], ">u4").tobytes() + part for kind, part in parts)
    data = bytes(HEADER - 4) + b"\x01\x00MI" + np.array([14, len(body)], ">u4").tobytes() + body
    found = read_arrays(data)
    assert [each.tolist() for each in found.values()] == [[[1.5, -2.0]]]


@given(st.data())
def test_damage_is_a_value_error_or_harmless(data):
    whole = saved(
        {"kps": np.arange(20.0).reshape(10, 2), "bbox": np.ones((1, 4))}, do_compression=data.draw(st.booleans())
    )
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(HEADER - 4, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        read_arrays(bytes(content[: data.draw(st.integers(0, len(content)))]))


def test_a_small_file_cannot_ask_for_much_memory():
    packed = zlib.compress(bytes(LARGEST + 1000))
    tag = np.array([15, len(packed)], "<u4").tobytes()
    with pytest.raises(ValueError, match="too large"):
        read_arrays(bytes(HEADER - 4) + b"\x00\x01IM" + tag + packed)
