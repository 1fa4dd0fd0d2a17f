"""Read an ONNX graph's structure and refuse what this package does not write, before ONNX Runtime sees the file.

A graph could name files (external data of weights), operators of other libraries, or nested graphs that do. Only a flat
graph of ONNX's own operators is accepted, whose weights are all given by `model.safetensors`. The few fields that
matter are read here from the protobuf encoding itself: the package onnx is not needed to run a model.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from mambamatcher.errors import WeightsError
from mambamatcher.model.saved import DIGEST, FINGERPRINT, INT8, WEIGHTS, graph_digest

OLDEST, NEWEST = 18, 23  # operator sets that are run
MOST_BYTES = 8 * 2**20  # shipped graphs have less than 100,000
FLOAT, BYTE = 1, 3  # ONNX's numbers of float32 and int8

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # kinds of protobuf fields
Value = int | memoryview


class _MalformedError(ValueError):
    """The bytes are no protobuf message."""


@dataclass
class GraphOutline:
    """What a graph needs and says of itself.

    Attributes:
        weights: Shape of each weight that `model.safetensors` must give, by its name there; `|int8` and `|scale` after
            the name ask for its quantised values and their scales.
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        metadata: Texts by key.
    """

    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)


def read_outline(content: bytes, name: str) -> GraphOutline:
    """Return the outline of a graph.

    Args:
        content: The ONNX file.
        name: The file's name for error messages.

    Raises:
        WeightsError: The file is damaged, or holds anything that this package does not write.
    """
    if len(content) > MOST_BYTES:
        raise _refusal(name, f"it has {len(content):,} bytes; a graph without weights has less than {MOST_BYTES:,}")
    try:
        return _model(memoryview(content), name)
    except (_MalformedError, UnicodeDecodeError) as error:
        raise WeightsError(f"cannot read {name}: it is damaged or no ONNX graph") from error


def _refusal(name: str, reason: str) -> WeightsError:
    return WeightsError(f"{name} is not a graph written by mambamatcher: {reason}; export the model again")


def _model(message: memoryview, name: str) -> GraphOutline:
    outline, graphs, opsets = GraphOutline(), [], []
    for number, value in _fields(message):
        if number == 7:
            graphs.append(_message(value))
        elif number == 8:
            opsets.append(_opset(_message(value), name))
        elif number == 14:
            key, text = _pair(_message(value))
            if key not in (FINGERPRINT, DIGEST):  # ONNX Runtime can take settings of its own from others
                raise _refusal(name, f"its metadata has a key {key!r:.60}")
            outline.metadata[key] = text
        elif number in (20, 25, 26):  # training, functions, configurations of devices
            raise _refusal(name, "it holds functions or training information")
    if len(graphs) != 1 or len(opsets) != 1:
        raise _refusal(name, "it has not exactly one graph and one operator set")
    if not OLDEST <= opsets[0] <= NEWEST:
        raise _refusal(name, f"its operator set is {opsets[0]}, expected {OLDEST} to {NEWEST}")
    if outline.metadata.get(DIGEST) not in (None, graph_digest(graphs[0])):
        raise _MalformedError
    _graph(graphs[0], outline, name)
    return outline


def _opset(message: memoryview, name: str) -> int:
    version = 0
    for number, value in _fields(message):
        if number == 1:
            _own_domain(_text(value), name)
        elif number == 2:
            version = _integer(value)
    return version


def _graph(message: memoryview, outline: GraphOutline, name: str) -> None:
    for number, value in _fields(message):
        if number == 1:
            _node(_message(value), name)
        elif number == 5:
            _weight(_message(value), outline, name)
        elif number == 11:
            outline.inputs.append(_first_text(_message(value)))
        elif number == 12:
            outline.outputs.append(_first_text(_message(value)))
        elif number == 15:
            raise _refusal(name, "it has sparse weights")


def _node(message: memoryview, name: str) -> None:
    for number, value in _fields(message):
        if number == 5:
            _attribute(_message(value), name)
        elif number == 7:
            _own_domain(_text(value), name)


def _attribute(message: memoryview, name: str) -> None:
    for number, value in _fields(message):
        if number in (6, 11):
            raise _refusal(name, "an operator of it holds a graph")
        if number in (22, 23):
            raise _refusal(name, "an operator of it holds sparse values")
        if number in (5, 10):
            if _outside(_message(value)) is not None:
                raise _refusal(name, "an operator of it reads a file")
            _check_size(_message(value), name)


def _weight(message: memoryview, outline: GraphOutline, name: str) -> None:
    key, kind = "", 0
    for number, value in _fields(message):
        if number == 2:
            kind = _integer(value)
        elif number == 8:
            key = _text(value)
    location = _outside(message)
    if location is None:
        _check_size(message, name)
        return
    if location != WEIGHTS or kind != (BYTE if key.endswith(INT8) else FLOAT):
        raise _refusal(name, f"its weight {key!r} is not to be read from {WEIGHTS} as float32 or quantised")
    outline.weights[key] = _shape(message)


def _shape(message: memoryview) -> tuple[int, ...]:
    sizes = (value for number, value in _fields(message) if number == 1)
    return tuple(size for each in sizes for size in ([each] if isinstance(each, int) else _packed(each)))


def _check_size(message: memoryview, name: str) -> None:
    """Refuse a tensor whose shape promises more values than it can hold; the smallest kind packs two into a byte."""
    if prod(_shape(message)) > 2 * len(message):
        raise _refusal(name, "a tensor of it has fewer values than its shape says")


def _outside(message: memoryview) -> str | None:
    """Return the file that a tensor is to be read from, or None if it holds its values."""
    entries = [_pair(_message(value)) for number, value in _fields(message) if number == 13]
    if len(entries) == 1 and entries[0][0] == "location":
        return entries[0][1]
    flagged = any(number == 14 and _integer(value) for number, value in _fields(message))
    return "" if entries or flagged else None  # several entries could contradict each other


def _own_domain(domain: str, name: str) -> None:
    if domain not in ("", "ai.onnx"):
        raise _refusal(name, f"it uses operators of {domain!r}")


def _pair(message: memoryview) -> tuple[str, str]:
    texts = {number: _text(value) for number, value in _fields(message) if number in (1, 2)}
    return texts.get(1, ""), texts.get(2, "")


def _first_text(message: memoryview) -> str:
    return next((_text(value) for number, value in _fields(message) if number == 1), "")


def _text(value: Value) -> str:
    return bytes(_message(value)).decode()


def _message(value: Value) -> memoryview:
    if isinstance(value, int):
        raise _MalformedError
    return value


def _integer(value: Value) -> int:
    if not isinstance(value, int):
        raise _MalformedError
    return value


def _packed(value: memoryview) -> Iterator[int]:
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        yield number


def _fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field of a protobuf message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag >= 2**32:  # ONNX Runtime would drop the upper bits and see another field
            raise _MalformedError
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        size = {_EIGHT: 8, _FOUR: 4}.get(kind)
        if kind == _BYTES:
            size, at = _varint(message, at)
        if size is None or at + size > len(message):
            raise _MalformedError
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80 and number < 2**64:
            return number, at
    raise _MalformedError
