"""Seeded damage: to the bytes of a file, and to the values of a JSON document."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

Rng = np.random.Generator

DEEP = "[" * 100_000
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    10**30,
    10**400,
    0.5,
    "",
    "x",
    "../../../../etc/passwd",
    "a\x00b",
    "\ud800",
    "n" * 10_000,
    [],
    [[]],
    [None],
    [1, 2, 3],
    {},
    {"kind": "none"},
    {"a": {"b": []}},
)


def pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def damaged_bytes(rng: Rng, data: bytes) -> bytes:
    """Cut, overwrite, insert, repeat or drop some of a file."""
    content = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        start = int(rng.integers(len(content) + 1))
        end = min(len(content), start + int(rng.integers(1, 64)))
        noise = rng.integers(0, 256, end - start, dtype=np.uint8).tobytes()
        way = int(rng.integers(6))
        if way == 0:
            del content[start:]
        elif way == 1:
            content[start:end] = noise
        elif way == 2:
            content[start:start] = noise
        elif way == 3:
            content[start:end] = content[start:end] * 2
        elif way == 4:
            content[start:end] = b""
        else:
            content[start:end] = bytes([pick(rng, (0, 255))]) * (end - start)
    return bytes(content)


def damaged_json(rng: Rng, document: Any) -> str:
    """Exchange, drop or repeat some values, or damage the text itself."""
    way = int(rng.integers(10))
    if way == 0:
        return damaged_bytes(rng, json.dumps(document).encode()).decode("latin-1")
    if way == 1:
        return pick(rng, (DEEP, '{"a":' * 50_000, "", "null", "NaN", "[]", "{}", "9" * 5000, '"\\ud800"', "[1e999999]"))
    changed = copy.deepcopy(document)
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(changed))
        if not places:
            break
        holder, key = pick(rng, places)
        action = int(rng.integers(4))
        if action == 0:
            del holder[key]
        elif action == 1 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        else:
            holder[key] = copy.deepcopy(pick(rng, ODD_VALUES))
    return json.dumps(changed)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in list(items):
        yield document, key
        yield from _places(value)
