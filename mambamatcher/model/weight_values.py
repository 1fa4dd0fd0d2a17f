"""Which values weights may hold, and weights as NumPy arrays. Free of PyTorch, as the ONNX runtime needs it too."""

import numpy as np
from safetensors import SafetensorError, deserialize

from mambamatcher.errors import WeightsError

FLOATS = ("float16", "bfloat16", "float32", "float64")
_COUNTERS = "num_batches_tracked"  # of batch norms, the only integers among the weights of a network
_NAMES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "I64": "int64"}  # in the format


def expected_dtype(key: str) -> str:
    """Return the type that a weight has in a network, by its name."""
    return "int64" if key.endswith(_COUNTERS) else "float32"


def check_dtype(key: str, dtype: str, expected: str, origin: str) -> None:
    """Refuse a weight that would change when it is converted to the expected type.

    Loading would turn integers into floats, and drop the imaginary part of complex numbers, without a word.
    """
    if dtype not in (FLOATS if expected in FLOATS else (expected,)):
        raise WeightsError(f"{origin} cannot be used: {key!r} holds {dtype}, expected {expected}")


def check_finite(key: str, finite: bool, expected: str, origin: str) -> None:
    """Refuse a weight that is not finite in the expected type."""
    if not finite:
        raise WeightsError(f"{origin} cannot be used: {key!r} holds values that are not finite in {expected}")


def read_arrays(content: bytes, origin: str) -> dict[str, np.ndarray]:
    """Read the weights of a safetensors file; floats of any size become float32.

    Raises:
        WeightsError: The file is damaged, or a weight cannot be used.
    """
    try:
        entries = deserialize(content)
    except (SafetensorError, RuntimeError, TypeError, ValueError, LookupError) as error:
        raise WeightsError(f"cannot read weights from {origin}: {first_line(error)}") from error
    arrays = {}
    for key, entry in entries:
        dtype, expected = _NAMES.get(entry["dtype"], entry["dtype"]), expected_dtype(key)
        check_dtype(key, dtype, expected, origin)
        with np.errstate(over="ignore"):  # a large float64 becomes infinite, which is refused
            arrays[key] = _values(entry["data"], dtype).astype(expected, copy=False).reshape(entry["shape"])
        check_finite(key, bool(np.isfinite(arrays[key]).all()), expected, origin)
    return arrays


def _values(data: bytes | bytearray, dtype: str) -> np.ndarray:
    if dtype != "bfloat16":
        return np.frombuffer(data, dtype)
    # NumPy has no such type: it is the upper half of a float32
    return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, or its type where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
