"""A short name for exactly this data: the same pairs, annotations and picture files give the same fingerprint."""

import json
from collections.abc import Sequence
from hashlib import sha256

from mambamatcher.datasets.records import AnnotatedImage, Pair


def fingerprint(pairs: Sequence[Pair]) -> str:
    """Hash names, keypoints, boxes, sizes and the bytes of every picture; where the files lie does not matter."""
    digest = sha256()
    seen = set()
    for pair in pairs:
        content = [pair.name, pair.category, _content(pair.source), _content(pair.target), dict(pair.variation)]
        digest.update(json.dumps(content, sort_keys=True).encode())
        for image in (pair.source, pair.target):
            if image.path not in seen:
                seen.add(image.path)
                digest.update(image.path.read_bytes() if image.picture is None else image.picture.tobytes())
    return digest.hexdigest()[:16]


def _content(image: AnnotatedImage) -> list[object]:
    return [image.path.name, image.size, dict(image.keypoints), image.bbox, image.flip]
