"""A gallery of the worst pairs as one self-contained HTML file."""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from mambamatcher.errors import InputError
from mambamatcher.evaluation.score import correct_counts
from mambamatcher.evaluation.table import Protocol, Table
from mambamatcher.io.atomic import write_text_atomically
from mambamatcher.io.images import load_image

_WIDTH = 360
_STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem; background: #fafafa; color: #222 }
figure { display: inline-block; margin: 0 1.5rem 1.5rem 0 } svg { display: inline-block; margin-right: 4px }
.source { fill: #1a73e8 } .truth { fill: none; stroke: #188038; stroke-width: 2 }
.wrong { stroke: #d93025 } .right { stroke: #188038 } line { stroke-width: 2 }
"""


def write_gallery(
    path: Path,
    table: Table,
    records: Sequence[Mapping[str, Any]],
    protocol: Protocol,
    *,
    alpha: float = 0.1,
    count: int = 40,
) -> None:
    """Write a page of the pairs with the lowest PCK; ties are sorted by mean error, largest first.

    Args:
        path: HTML file to write; an existing one is replaced.
        table: Predictions and ground truth of all pairs.
        records: Records of the prediction file, in the order of the table.
        protocol: PCK protocol to rank by.
        alpha: Threshold to rank by, and to colour matches by.
        count: Maximum number of pairs on the page.
    """
    errors = table.errors(protocol)
    shares = (correct_counts(errors, [alpha])[:, 0] / table.counts).tolist()
    far = np.where(table.targets.present, errors, 0).clip(max=10).mean(axis=1).tolist()
    worst = sorted(range(len(records)), key=lambda row: (shares[row], -far[row]))[:count]
    figures = [_figure(records[row], errors[row].tolist(), alpha, shares[row]) for row in worst]
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Worst pairs</title><style>{_STYLE}</style>"
        f"<h1>Worst {len(worst)} of {len(records)} pairs</h1><p>PCK@{alpha:g}, {escape(protocol.label)}. Blue: query "
        "points. Green ring: ground truth. Line from ground truth to prediction: red where wrong.</p>"
        f"{''.join(figures)}</html>"
    )
    write_text_atomically(path, page, overwrite=True)


def _figure(record: Mapping[str, Any], errors: Sequence[float], alpha: float, share: float) -> str:
    queries = "".join(_dot(point, name) for point, name in zip(record["source_points"], record["names"], strict=True))
    marks = zip(record["target_points"], record["predicted"], errors, record["names"], strict=False)
    found = "".join(_match(truth, predicted, error <= alpha, name) for truth, predicted, error, name in marks)
    caption = f"{escape(record['pair'])}: {100 * share:.0f} % of {len(record['names'])}"
    images = _image(record["source"], queries) + _image(record["target"], found)
    return f"<figure>{images}<figcaption>{caption}</figcaption></figure>"


def _image(image: Mapping[str, Any], marks: str) -> str:
    width, height = image["size"]
    shown = f"viewBox='0 0 {width} {height}' width='{_WIDTH}' height='{_WIDTH * height / width:.0f}'"
    return f"<svg {shown}><image href='{_data_url(image)}' width='{width}' height='{height}'/>{marks}</svg>"


def _data_url(image: Mapping[str, Any]) -> str:
    """Return the image as a data URL, or nothing if it can no longer be read."""
    try:
        thumbnail = load_image(image["path"])
    except InputError:
        return ""
    thumbnail = ImageOps.mirror(thumbnail) if image["flip"] else thumbnail
    thumbnail.thumbnail((2 * _WIDTH, 2 * _WIDTH), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    thumbnail.save(buffer, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _dot(point: Sequence[float], name: str) -> str:
    return f"<circle class=source cx='{point[0]}' cy='{point[1]}' r='4'><title>{escape(name)}</title></circle>"


def _match(truth: Sequence[float], predicted: Sequence[float] | None, correct: bool, name: str) -> str:
    ring = f"<circle class=truth cx='{truth[0]}' cy='{truth[1]}' r='5'><title>{escape(name)}</title></circle>"
    if predicted is None:
        return ring
    kind = "right" if correct else "wrong"
    return f"{ring}<line class={kind} x1='{truth[0]}' y1='{truth[1]}' x2='{predicted[0]}' y2='{predicted[1]}'/>"
