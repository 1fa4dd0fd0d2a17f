"""Reading a JSON array object by object, so that a large file is never whole in memory."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mambamatcher.io.atomic import unique_keys

CHUNK = 1 << 20  # characters that are read at once

_FIRST = re.compile(r"\s*\[\s*([{\]])")
_NEXT = re.compile(r"\s*(?:,\s*(\{)|(\]))")


def parse_json_array(path: Path, chunk: int = CHUNK) -> Iterator[Any]:
    """Yield the objects of a JSON array one by one; what is no such array is a `ValueError`."""
    decode = json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode
    with path.open(encoding="utf-8-sig") as file:
        buffer, place, expected = file.read(chunk), 0, _FIRST
        while True:
            begun = expected.match(buffer, place)
            try:
                if begun is None:
                    raise ValueError(f"it is no array of objects, or is cut off, at {buffer[place : place + 20]!r}")
                if buffer[begun.end() - 1] == "]":
                    if (buffer[begun.end() :] + file.read()).strip():
                        raise ValueError("something follows the end of the array")
                    return
                item, place = decode(buffer, begun.end() - 1)
            except RecursionError as error:
                raise ValueError("it is nested too deeply") from error
            except ValueError:
                if not (more := file.read(max(chunk, len(buffer)))):
                    raise
                buffer, place = buffer[place:] + more, 0
                continue
            expected = _NEXT
            yield item
