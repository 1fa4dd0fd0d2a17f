"""A page to review transferred points: thumbnails, the most doubtful first, in one self-contained HTML file."""

import base64
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from PIL import Image

from mambamatcher.errors import InputError
from mambamatcher.io.drawing import confidence_colour
from mambamatcher.io.images import ImageLike, load_image
from mambamatcher.io.points import PointSet

Find = Callable[[Collection[str]], Iterable[tuple[str, ImageLike]]]  # opens the named images, in any order
Shown = tuple[str, Image.Image, PointSet]  # name, upright image and points
SHOWN = 500  # thumbnails; browsers cannot open a page of many thousands
_WIDTH = 260
_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem }
main { display: grid; align-items: start; grid-template-columns: repeat(auto-fill, minmax(260px, 1fr)); gap: 1.2rem }
figure { margin: 0; min-width: 0 } svg { width: 100%; height: auto; background: #8883 }
text { fill: #fff; stroke: #000; stroke-width: .2em; paint-order: stroke; font-weight: 600 }
body:not(:has(#names:checked)) main:not(.references) .name { display: none }
.references { margin-bottom: 1.6rem; grid-template-columns: repeat(auto-fill, minmax(260px, 400px)) }
figcaption { font-size: 13px; overflow-wrap: anywhere } .error { border-left: 4px solid #d55e00; padding-left: .6rem }
.key { display: inline-block; width: 8rem; height: .8rem; vertical-align: middle; border-radius: 3px;
  background: linear-gradient(90deg, #d55e00, #f5d73c, #009e73) }
"""


def doubt(line: Mapping[str, Any]) -> float:
    """Return how urgently a target needs review: 1 if it could not be read, else 1 minus its mean confidence."""
    if "error" in line:
        return 1.0
    return 1.0 - sum(point["confidence"] for point in line["points"]) / len(line["points"])


def make_review(find: Find, lines: Sequence[Mapping[str, Any]], references: Sequence[Shown] = ()) -> str:
    """Return the page as HTML: the references, then the targets, of which the `SHOWN` most doubtful at most.

    Args:
        find: Opens the images with the given names.
        lines: Result of each target, as in `points.jsonl`.
        references: The name, image and points of each reference.
    """
    names = list(dict.fromkeys(name for _, _, points in references for name in points.names))
    numbers = {name: number for number, name in enumerate(names, start=1)}
    worst = sorted(lines, key=doubt, reverse=True)[:SHOWN]
    thumbnails = {name: _thumbnail(image) for name, image in find({line["image"] for line in worst})}
    kept = f"the {len(worst)} most doubtful of {len(lines)}" if len(worst) < len(lines) else f"{len(lines)}"
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Transferred points to review</title><style>{_STYLE}</style><h1>Transferred points to review</h1>"
        f"<p>{kept} targets, the most doubtful first. Confidence: 0 <span class=key></span> 1. "
        "Hollow: below the threshold. <label><input type=checkbox id=names> Names</label></p>"
        f"<main class=references>{''.join(_reference_figure(numbers, *each) for each in references)}</main>"
        f"<main>{''.join(_figure(numbers, thumbnails, line) for line in worst)}</main></html>"
    )


def _reference_figure(numbers: Mapping[str, int], name: str, image: Image.Image, points: PointSet) -> str:
    marks = "".join(
        _mark({"name": point, "x": x, "y": y, "confidence": 1.0, "matched": True}, image.size, numbers)
        for point, (x, y) in zip(points.names, points.points.tolist(), strict=True)
    )
    picture = _picture(escape(name), image.size, _thumbnail(image), marks)
    return f"<figure>{picture}<figcaption><b>{escape(name)}</b><br>reference</figcaption></figure>"


def _figure(numbers: Mapping[str, int], thumbnails: Mapping[str, str], line: Mapping[str, Any]) -> str:
    name = escape(line["image"])
    if "error" in line:
        return f"<figure class=error><figcaption><b>{name}</b><br>{escape(line['error'])}</figcaption></figure>"
    width, height = line["size"]
    shown = [point for point in line["points"] if not point.get("absent")]
    marks = "".join(_mark(point, (width, height), numbers) for point in shown)
    unmatched = sum(not point["matched"] for point in shown)
    caption = f"<b>{name}</b><br>" + (
        escape(line["status"])
        if "status" in line
        else f"mean confidence {1 - doubt(line):.2f}" + (f", {unmatched} below the threshold" if unmatched else "")
    )
    picture = _picture(name, (width, height), thumbnails[line["image"]], marks)
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _picture(name: str, size: tuple[int, int], thumbnail: str, marks: str) -> str:
    width, height = size
    return (
        f"<svg viewBox='0 0 {width} {height}' role=img aria-label='{name}'>"
        f"<image href='{thumbnail}' width='{width}' height='{height}'/>{marks}</svg>"
    )


def _mark(point: Mapping[str, Any], size: tuple[int, int], numbers: Mapping[str, int]) -> str:
    radius = max(size) / 60
    colour = "#{:02x}{:02x}{:02x}".format(*confidence_colour(point["confidence"]))
    looks = (
        f"fill='{colour}' stroke='#000' stroke-width='{radius / 5:.2f}'"
        if point["matched"]
        else f"fill='none' stroke='{colour}' stroke-width='{radius / 2.5:.2f}'"
    )
    name = escape(point["name"])
    place = f"cx='{point['x']:.1f}' cy='{point['y']:.1f}' r='{radius:.1f}'"
    right = point["x"] < 0.75 * size[0]  # else there is no room for the name
    x = point["x"] + (1.4 if right else -1.4) * radius
    anchor = "start" if right else "end"
    beside = f"x='{x:.1f}' y='{point['y'] + 0.8 * radius:.1f}' font-size='{2.4 * radius:.1f}' text-anchor={anchor}"
    return (
        f"<circle {place} {looks}><title>{name}: {point['confidence']:.2f}</title></circle>"
        f"<text {beside}>{numbers.get(point['name'], '')}<tspan class=name> {name}</tspan></text>"
    )


def _thumbnail(image: ImageLike) -> str:
    """Return the image as a data URL, or nothing if it can no longer be read."""
    try:
        thumbnail = load_image(image)
    except InputError:
        return ""
    thumbnail.thumbnail((2 * _WIDTH, 2 * _WIDTH), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    thumbnail.save(buffer, "JPEG", quality=75)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
